// SPDX-License-Identifier: Apache-2.0
// Layout of op inputs by torch version: field offsets of at::RecordFunction, c10::IValue,
// c10::TensorImpl, and of lists and strings. Facts from libtorch's public headers
// (ATen/record_function.h, ATen/core/ivalue.h, c10/core/TensorImpl.h), obtained from a program
// compiled with the headers of each version.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Mirrors c10::IValue: payload and tag. The same in all versions of the table.
struct ValueView {
  uint64_t payload;
  uint32_t tag;
  uint32_t unused;
};

// Offsets in bytes. The objects pointed to live as long as the op's inputs.
struct InputLayout {
  // at::RecordFunction
  uint32_t inputs;    // const IValue*, size_t
  uint32_t kwinputs;  // std::unordered_map<std::string, IValue>
  // IValue::Tag
  uint8_t tag_tensor, tag_real, tag_complex, tag_integer, tag_boolean, tag_text, tag_list;
  // c10::TensorImpl
  uint32_t tensor_size;  // sizeof, which the verification compares with libtorch's
  uint32_t sizes;        // c10::impl::SizesAndStrides: count, then inline numbers or their address
  uint32_t inline_dims;  // sizes stored inline, followed by as many strides
  uint32_t dtype;        // uint16: index of the type's description
  uint32_t key_set;      // uint64: c10::DispatchKeySet
  uint32_t symbolic;     // byte that indicates symbolic sizes
  uint8_t symbolic_bits;
  uint64_t nested_keys;     // keys of tensors without sizes
  uint64_t unstrided_keys;  // keys of tensors without strides
  // c10::detail::ListImpl
  uint32_t list_items;  // std::vector<IValue>: begin, end
  uint32_t list_type;   // const c10::Type* of its elements
  // c10::Type
  uint32_t type_kind;  // uint32
  uint32_t kind_tensor;
  // c10::ivalue::ConstantString: std::string; c10::ivalue::ComplexHolder: two doubles
  uint32_t text;
  uint32_t complex;
};

inline constexpr InputLayout kInputLayout_2_13{
    208, 224, 1,   3,    4,         5,         10, 12, 14, 176, 56, 5,
    160, 168, 166, 0x10, 0x2000000, 0x1c00000, 16, 40, 8,  3,   16, 16,
};

inline constexpr InputLayout kMacInputLayout_2_13{
    200, 216, 1,   3,    4,         5,         10, 12, 14, 176, 56, 5,
    160, 168, 166, 0x10, 0x2000000, 0x1c00000, 16, 40, 8,  3,   16, 16,
};

inline constexpr InputLayout kInputLayout_2_12{
    208, 224, 1,   3,    4,         5,         10, 12, 14, 184, 64, 5,
    168, 176, 174, 0x10, 0x2000000, 0x1c00000, 16, 40, 8,  3,   16, 16,
};
inline constexpr InputLayout kInputLayout_2_8{
    208, 224, 1,   3,    4,         5,         9,  11, 13, 184, 64, 5,
    168, 176, 174, 0x10, 0x2000000, 0x1c00000, 16, 40, 8,  3,   16, 16,
};

// Returns the layout of a version with the C++11 string ABI or the older one; null if it is not in
// the table, which lists only versions on which the verification was run. The same version's
// RecordFunction is in the table of record_function_layout.hpp.
const InputLayout* find_input_layout(std::string_view version, bool cxx11_abi) noexcept;

// The members in order, as read from the headers of a version that is not in the table
// (fastprof.adapters.torch.headers).
using InputLayoutNumbers = std::array<uint64_t, 24>;
InputLayoutNumbers numbers_of(const InputLayout& layout) noexcept;

// Converts numbers to a layout. Returns false if one exceeds its member's type.
bool read_numbers(const InputLayoutNumbers& numbers, InputLayout& layout) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
