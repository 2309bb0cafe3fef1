// SPDX-License-Identifier: Apache-2.0
// Visits the tensors among an op's inputs and outputs, in the order and flattening of PyTorch's
// NVTX text: an input that is a list counts with each of its tensors.
#pragma once

#include <cstdint>

#include "adapters/torch/inputs/common_input.hpp"
#include "adapters/torch/inputs/input_layout.hpp"
#include "adapters/torch/layout/standard_library.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// at::RecordFunction::outputs_ (std::vector<IValue>) follows the keyword inputs.
constexpr uint32_t outputs_offset(const InputLayout& layout) noexcept {
  return layout.kwinputs + StandardLibrary::kMapBytes;
}

constexpr uintptr_t kNoTensor = 0;

// Calls visit(tensor) for each tensor of each input, with the address of its TensorImpl; with
// kNoTensor for an input without tensors. defined_only: lists count with their defined tensors
// only. undefined: the address of the undefined tensor.
template <class Memory, class Visit>
void for_each_input_tensor(const void* record_function, const InputLayout& layout, Memory& memory,
                           uintptr_t undefined, bool defined_only, Visit&& visit) {
  const auto rf = reinterpret_cast<uintptr_t>(record_function);
  const auto first = memory.template load<uintptr_t>(rf + layout.inputs);
  const auto count = memory.template load<uint64_t>(rf + layout.inputs + 8);
  for (uint64_t i = 0; i < count; ++i) {
    const ValueView value = load_value(memory, first + i * sizeof(ValueView));
    if (value.tag == layout.tag_tensor) {
      visit(static_cast<uintptr_t>(value.payload));
      continue;
    }
    bool any = false;
    if (value.tag == layout.tag_list) {
      const ListItems list = load_list(layout, memory, value.payload);
      for (size_t j = 0; j < list.count; ++j) {
        const ValueView item = load_value(memory, list.first + j * sizeof(ValueView));
        if (item.tag != layout.tag_tensor || (defined_only && item.payload == undefined)) continue;
        visit(static_cast<uintptr_t>(item.payload));
        any = true;
      }
    }
    if (!any) visit(kNoTensor);
  }
}

// Calls visit(index, tensor) for each output that is a defined tensor. At most `most` outputs.
template <class Memory, class Visit>
void for_each_output_tensor(const void* record_function, const InputLayout& layout, Memory& memory,
                            uintptr_t undefined, uint64_t most, Visit&& visit) {
  const auto at = reinterpret_cast<uintptr_t>(record_function) + outputs_offset(layout);
  const auto first = memory.template load<uintptr_t>(at);
  const auto end = memory.template load<uintptr_t>(at + 8);
  const uint64_t count = (end - first) / sizeof(ValueView);
  for (uint64_t i = 0; i < count && i < most; ++i) {
    const ValueView value = load_value(memory, first + i * sizeof(ValueView));
    if (value.tag == layout.tag_tensor && value.payload != undefined)
      visit(i, static_cast<uintptr_t>(value.payload));
  }
}

// The sizes of a defined tensor; count 0 and a null pointer if it has none to read (nested,
// symbolic).
struct TensorSizes {
  const int64_t* sizes;
  size_t count;
};
template <class Memory>
TensorSizes sizes_of(uintptr_t tensor, const InputLayout& layout, Memory& memory,
                     uintptr_t undefined) noexcept {
  if (tensor == kNoTensor || tensor == undefined) return {nullptr, 0};
  const auto keys = memory.template load<uint64_t>(tensor + layout.key_set);
  const auto symbolic = memory.template load<uint8_t>(tensor + layout.symbolic);
  const auto dims = memory.template load<uint64_t>(tensor + layout.sizes);
  if ((keys & layout.nested_keys) != 0 || (symbolic & layout.symbolic_bits) != 0 ||
      dims > kMaxInputDims)
    return {nullptr, 0};
  uintptr_t at = tensor + layout.sizes + 8;
  if (dims > layout.inline_dims) at = memory.template load<uintptr_t>(at);
  return {reinterpret_cast<const int64_t*>(at), static_cast<size_t>(dims)};
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
