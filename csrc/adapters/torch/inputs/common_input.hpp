// SPDX-License-Identifier: Apache-2.0
// Encodes the common op inputs as words of payload/op_inputs/op_inputs.hpp: numbers, None, tensors
// of few dimensions, lists of integers. Makes no calls, so that a loop over inputs stays in
// registers. input_reader.hpp handles all others.
#pragma once

#include "adapters/torch/inputs/input_source.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A list: address of the first item, and number of items.
struct ListItems {
  uintptr_t first;
  size_t count;
};
// Reads the bounds of a list's std::vector<IValue>.
template <class Memory>
FASTPROF_ALWAYS_INLINE ListItems load_list(const InputLayout& layout, Memory& memory,
                                           uintptr_t list) noexcept {
  const auto first = memory.template load<uintptr_t>(list + layout.list_items);
  const auto end = memory.template load<uintptr_t>(list + layout.list_items + 8);
  return {first, (end - first) / sizeof(ValueView)};
}

// Returns whether the list's element type is tensor; this also works for an empty list.
template <class Memory>
FASTPROF_ALWAYS_INLINE bool has_tensors(const InputLayout& layout, Memory& memory,
                                        uintptr_t list) noexcept {
  const auto type = memory.template load<uintptr_t>(list + layout.list_type);
  return memory.template load<uint32_t>(type + layout.type_kind) == layout.kind_tensor;
}

// Appends the address of a tensor's storage to its item, which begins at `head`, if the Source
// requests it: TensorImpl::storage_ points to a StorageImpl, whose data pointer follows the same
// base class, so both lie at one offset. Tensors without memory of their own get none. Returns
// false, with the item removed, if there is no room.
template <class Source, class Memory>
FASTPROF_ALWAYS_INLINE bool put_storage(Source source, Memory& memory, uintptr_t tensor,
                                        uint64_t* head, InputWords& out) noexcept {
  if constexpr (Source::kStorages) {
    const uint32_t offset = source.storage();
    if (offset == 0) return true;
    const auto storage = memory.template load<uintptr_t>(tensor + offset);
    const auto data = storage == 0 ? 0 : memory.template load<uint64_t>(storage + offset);
    if (data == 0) return true;
    uint64_t* const to = out.leave_word();
    if (FASTPROF_UNLIKELY(to == nullptr)) {
      out.back_to(head);
      return false;
    }
    *to = data;
    *head |= input_bit::storage;
  }
  return true;
}

// The put_ functions below return false, with nothing put, for an input that is not common or does
// not fit. This one accepts defined, strided tensors of few dimensions without symbolic sizes.
template <class Source, class Memory>
FASTPROF_ALWAYS_INLINE bool put_small_tensor(Source source, Memory& memory, uintptr_t tensor,
                                             InputWords& out) noexcept {
  const InputLayout& layout = source.layout();
  const uint32_t apart = layout.inline_dims;
  if (FASTPROF_UNLIKELY(tensor == source.undefined() || apart < kMaxSmallDims ||
                        apart > kMaxInputDims))
    return false;
  const auto keys = memory.template load<uint64_t>(tensor + layout.key_set);
  const auto symbolic = memory.template load<uint8_t>(tensor + layout.symbolic);
  const auto dims = memory.template load<uint64_t>(tensor + layout.sizes);
  if (FASTPROF_UNLIKELY(((keys & (layout.nested_keys | layout.unstrided_keys)) |
                         (symbolic & layout.symbolic_bits) | uint64_t{dims > kMaxSmallDims}) != 0))
    return false;
  const auto dtype = memory.template load<uint16_t>(tensor + layout.dtype);
  typename Memory::template Scratch<int64_t, 2 * kMaxInputDims> room;
  const int64_t* sizes = room.view(memory, tensor + layout.sizes + 8, 2 * size_t{apart});
  if (FASTPROF_UNLIKELY(sizes == nullptr)) return false;
  uint64_t* const head = out.position();
  return out.put_small_tensor(dtype, sizes, sizes + apart, static_cast<uint32_t>(dims)) &&
         put_storage(source, memory, tensor, head, out);
}

// Puts a list of integers (sizes, dimensions, ...); an empty list counts as one, unless its element
// type is tensor. If the first item is an integer, the element type is not checked.
template <class Source, class Memory>
FASTPROF_ALWAYS_INLINE bool put_integers(Source source, Memory& memory, uintptr_t list,
                                         InputWords& out) noexcept {
  const ListItems items = load_list(source.layout(), memory, list);
  if (FASTPROF_UNLIKELY(items.count > kMaxInputListLength)) return false;
  if (items.count == 0 && has_tensors(source.layout(), memory, list)) return false;
  uint64_t* to = out.room_for_packed_list(static_cast<uint32_t>(items.count));
  if (FASTPROF_UNLIKELY(to == nullptr)) return false;
  const uintptr_t end = items.first + items.count * sizeof(ValueView);
  for (uintptr_t at = items.first; at != end; at += sizeof(ValueView)) {
    const ValueView value = load_value(memory, at);
    if (FASTPROF_UNLIKELY(value.tag != source.layout().tag_integer)) return false;
    *to++ = value.payload;
  }
  out.finish_packed_list(static_cast<uint32_t>(items.count));
  return true;
}

// Puts a value that is stored in the IValue itself; requires words(value.tag) != 0.
template <class Source>
FASTPROF_ALWAYS_INLINE bool put_scalar(Source source, const ValueView& value,
                                       InputWords& out) noexcept {
  const ScalarCodes& codes = source.codes();
  return out.put_scalar(codes.kind(value.tag), value.payload & codes.value_bits(value.tag),
                        codes.words(value.tag));
}

// Puts an input of any common kind.
template <class Source, class Memory>
FASTPROF_ALWAYS_INLINE bool put_common(Source source, Memory& memory, const ValueView& value,
                                       InputWords& out) noexcept {
  if (FASTPROF_LIKELY(value.tag == source.layout().tag_tensor))
    return put_small_tensor(source, memory, value.payload, out);
  if (FASTPROF_LIKELY(source.codes().words(value.tag) != 0)) return put_scalar(source, value, out);
  return value.tag == source.layout().tag_list && put_integers(source, memory, value.payload, out);
}

// Puts consecutive numbers and Nones from `at` on; these often come in runs, and a separate loop
// saves two jumps each. Returns the first input that is neither or does not fit, or `end`.
template <class Source, class Memory>
FASTPROF_ALWAYS_INLINE uintptr_t put_scalars(Source source, Memory& memory, uintptr_t at,
                                             uintptr_t end, InputWords& out) noexcept {
  for (; at != end; at += sizeof(ValueView)) {
    const ValueView value = load_value(memory, at);
    if (source.codes().words(value.tag) == 0 || !put_scalar(source, value, out)) break;
  }
  return at;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
