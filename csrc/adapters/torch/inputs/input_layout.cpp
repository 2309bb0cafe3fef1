// SPDX-License-Identifier: Apache-2.0
// Table of input layouts: see input_layout.hpp.
#include "adapters/torch/inputs/input_layout.hpp"

#include <cstddef>
#include <type_traits>

#include "adapters/torch/layout/release_table.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Rows as in record_function_layout.cpp.
constexpr KnownReleases<InputLayout> known_input_layouts[] = {
    {{2, 13}, kNewestRelease, StringAbi::libstdcxx, kInputLayout_2_13},
    {{2, 9}, {2, 12}, StringAbi::libstdcxx, kInputLayout_2_12},
    {{2, 7}, {2, 8}, StringAbi::libstdcxx, kInputLayout_2_8},
    {{2, 13}, {2, 13}, StringAbi::libcxx_alternate, kMacInputLayout_2_13},
};

// Calls `call` with all members, in order.
template <class Layout, class F>
auto with_members(Layout& layout, const F& call) noexcept {
  auto& [inputs, kwinputs, tag_tensor, tag_real, tag_complex, tag_integer, tag_boolean, tag_text,
         tag_list, tensor_size, sizes, inline_dims, dtype, key_set, symbolic, symbolic_bits,
         nested_keys, unstrided_keys, list_items, list_type, type_kind, kind_tensor, text,
         complex] = layout;
  return call(inputs, kwinputs, tag_tensor, tag_real, tag_complex, tag_integer, tag_boolean,
              tag_text, tag_list, tensor_size, sizes, inline_dims, dtype, key_set, symbolic,
              symbolic_bits, nested_keys, unstrided_keys, list_items, list_type, type_kind,
              kind_tensor, text, complex);
}

}  // namespace

const InputLayout* find_input_layout(std::string_view version, bool cxx11_abi) noexcept {
  return find_release(known_input_layouts, version, string_abi_here(cxx11_abi));
}

InputLayoutNumbers numbers_of(const InputLayout& layout) noexcept {
  return with_members(layout,
                      [](const auto&... members) { return InputLayoutNumbers{members...}; });
}

bool read_numbers(const InputLayoutNumbers& numbers, InputLayout& layout) noexcept {
  size_t next = 0;
  bool fits = true;
  const auto read = [&](auto& member) {
    member = static_cast<std::remove_reference_t<decltype(member)>>(numbers[next]);
    fits = fits && member == numbers[next];
    ++next;
  };
  with_members(layout, [&](auto&... members) { (read(members), ...); });
  return fits;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
