// SPDX-License-Identifier: Apache-2.0
// InputReader: encodes any IValue as words of payload/op_inputs/op_inputs.hpp. Reads through a
// Memory: DirectMemory once the layout is verified, CheckedMemory during verification. A Source
// (input_source.hpp) provides the layout.
#pragma once

#include "adapters/torch/inputs/common_input.hpp"
#include "adapters/torch/layout/direct_memory.hpp"
#include "adapters/torch/layout/standard_library.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Encodes some inputs of an op at a given position of a block.
template <class Source, class Memory>
class InputReader {
 public:
  InputReader(Source source, Memory& memory, uint64_t* at, uint64_t* end) noexcept
      : source_(source), memory_(memory), out_(InputWords::amid(at, end)) {}

  uint64_t* position() const noexcept { return out_.position(); }
  // Returns whether everything that was put is complete.
  bool whole() const noexcept { return whole_; }

  // Puts an input. Returns false, with nothing put, if it does not fit.
  bool put(const ValueView& value) noexcept {
    if (put_common(source_, memory_, value, out_)) return true;
    if (value.tag == layout().tag_tensor) return put_tensor(value.payload);
    if (value.tag == layout().tag_list) return put_list(value.payload);
    if (value.tag == layout().tag_complex) return put_complex(value.payload);
    return !is_number(value.tag) && out_.put(InputKind::other);
  }

  // Puts a std::string.
  bool put_text(uintptr_t address) noexcept {
    const TextBounds bounds = StandardLibrary::load_text(memory_, address);
    const size_t taken = bounds.length < kMaxInputTextBytes ? bounds.length : kMaxInputTextBytes;
    Scratch<char, kMaxInputTextBytes> room;
    const char* bytes = room.view(memory_, bounds.text, taken);
    return bytes != nullptr && out_.put_text(bytes, bounds.length);
  }

  // Puts the value of a keyword input; unlike positional inputs, also strings and lists of strings.
  bool put_keyword(const ValueView& value) noexcept {
    if (value.tag == layout().tag_text) return put_text(value.payload + layout().text);
    if (value.tag != layout().tag_list) return put(value);
    const ListItems list = load_list(layout(), memory_, value.payload);
    if (list.count == 0 || item(list, 0).tag != layout().tag_text) return put(value);
    uint64_t* const before = out_.position();
    if (!out_.put(InputKind::list, 0, static_cast<uint32_t>(list.count))) return false;
    for (size_t i = 0; i < list.count; ++i) {
      const ValueView one = item(list, i);
      if (one.tag == layout().tag_text && put_text(one.payload + layout().text)) continue;
      out_.back_to(before);
      return out_.put(InputKind::other);
    }
    return true;
  }

 private:
  template <class T, size_t most>
  using Scratch = typename Memory::template Scratch<T, most>;

  ValueView item(const ListItems& list, size_t i) noexcept {
    return load_value(memory_, list.first + i * sizeof(ValueView));
  }

  bool put_tensor(uintptr_t tensor) noexcept {
    if (FASTPROF_UNLIKELY(tensor == source_.undefined())) return out_.put(InputKind::undefined);
    const auto keys = memory_.template load<uint64_t>(tensor + layout().key_set);
    const auto symbolic = memory_.template load<uint8_t>(tensor + layout().symbolic);
    if (FASTPROF_UNLIKELY((keys & layout().nested_keys) != 0 ||
                          (symbolic & layout().symbolic_bits) != 0))
      return out_.put(InputKind::undefined);
    const auto dtype = memory_.template load<uint16_t>(tensor + layout().dtype);
    const auto dims = memory_.template load<uint64_t>(tensor + layout().sizes);
    if (FASTPROF_UNLIKELY(dims > kMaxInputDims)) return out_.put(InputKind::undefined);
    const auto n = static_cast<uint32_t>(dims);
    uintptr_t at = tensor + layout().sizes + 8;
    uint32_t apart = layout().inline_dims;
    if (FASTPROF_UNLIKELY(n > layout().inline_dims)) {
      at = memory_.template load<uintptr_t>(at);
      apart = n;
    }
    if (FASTPROF_UNLIKELY(apart > kMaxInputDims)) return out_.put(InputKind::undefined);
    Scratch<int64_t, 2 * kMaxInputDims> room;
    const int64_t* sizes = room.view(memory_, at, 2 * size_t{apart});
    if (sizes == nullptr) return false;
    const bool strided = (keys & layout().unstrided_keys) == 0;
    uint64_t* const head = out_.position();
    return out_.put_tensor(dtype, sizes, strided ? sizes + apart : nullptr, n) &&
           (!strided || put_storage(source_, memory_, tensor, head, out_));
  }

  bool put_list(uintptr_t list) noexcept {
    const ListItems items = load_list(layout(), memory_, list);
    return has_tensors(layout(), memory_, list) ? put_tensors(items) : put_numbers(items);
  }

  bool put_tensors(const ListItems& list) noexcept {
    uint64_t* const before = out_.position();
    if (!out_.put(InputKind::tensor_list, 0, static_cast<uint32_t>(list.count))) return false;
    for (size_t i = 0; i < list.count; ++i) {
      const ValueView one = item(list, i);
      if (one.tag == layout().tag_tensor ? put_tensor(one.payload) : out_.put(InputKind::undefined))
        continue;
      return cut_tensors(list, before);
    }
    return true;
  }

  // Puts the list again, with as many tensors as fit.
  bool cut_tensors(const ListItems& list, uint64_t* before) noexcept {
    whole_ = false;
    out_.back_to(before);
    if (!out_.put(InputKind::tensor_list, input_bit::cut, static_cast<uint32_t>(list.count)))
      return false;
    uint64_t* const stored = out_.leave_word();
    if (stored == nullptr) {
      out_.back_to(before);
      return false;
    }
    *stored = 0;
    for (size_t i = 0; i < list.count; ++i) {
      const ValueView one = item(list, i);
      if (!(one.tag == layout().tag_tensor ? put_tensor(one.payload)
                                           : out_.put(InputKind::undefined)))
        break;
      ++*stored;
    }
    return true;
  }

  bool is_number(uint32_t tag) const noexcept {
    return tag == layout().tag_integer || tag == layout().tag_real || tag == layout().tag_boolean ||
           tag == layout().tag_complex;
  }

  bool put_numbers(const ListItems& list) noexcept {
    const size_t count = list.count;
    if (count > kMaxInputListLength || (count != 0 && !is_number(item(list, 0).tag)))
      return out_.put(InputKind::other);
    uint64_t* const before = out_.position();
    if (!out_.put(InputKind::list, 0, static_cast<uint32_t>(count))) return false;
    for (size_t i = 0; i < count; ++i) {
      const ValueView one = item(list, i);
      if (is_number(one.tag) ? put(one) : out_.put(InputKind::other)) continue;
      out_.back_to(before);
      return false;
    }
    return true;
  }

  bool put_complex(uintptr_t holder) noexcept {
    const uint64_t bits[2] = {memory_.template load<uint64_t>(holder + layout().complex),
                              memory_.template load<uint64_t>(holder + layout().complex + 8)};
    return out_.put_complex(bits);
  }

  const InputLayout& layout() const noexcept { return source_.layout(); }

  Source source_;
  Memory& memory_;
  InputWords out_;
  bool whole_ = true;
};

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
