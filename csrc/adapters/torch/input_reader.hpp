// SPDX-License-Identifier: Apache-2.0
// From one IValue to the words of range_detail/op_inputs.hpp. What is read goes through a Memory:
// DirectMemory once the layout is proven, CheckedMemory for the proof; where it lies, a Source says
// (input_source.hpp).
#pragma once

#include "adapters/torch/direct_memory.hpp"
#include "adapters/torch/input_source.hpp"
#include "fastprof/range_detail/input_words.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// One op's inputs. What is put for most of them is in line, and takes no address of a reader: its
// position stays in a register.
template <class Source, class Memory>
class InputReader {
 public:
  FASTPROF_ALWAYS_INLINE InputReader(Source source, Memory& memory, const InputWords& out) noexcept
      : source_(source), memory_(memory), out_(out) {}

  InputWords& out() noexcept { return out_; }
  // Whether nothing was left out of what was put.
  bool whole() const noexcept { return whole_; }

  // False when it did not fit; then nothing was put.
  FASTPROF_ALWAYS_INLINE bool put(const ValueView& value) noexcept {
    if (FASTPROF_LIKELY(value.tag == layout().tag_tensor)) {
      if (FASTPROF_LIKELY(put_small_tensor(value.payload))) return true;
    } else {
      if (FASTPROF_UNLIKELY(value.tag >= ScalarCodes::kTags)) return out_.put(InputKind::other);
      const ScalarCode& code = source_.codes().of[value.tag];
      if (FASTPROF_LIKELY(code.words != 0)) {
        if (FASTPROF_LIKELY(out_.put_scalar(code, value.payload))) return true;
      } else if (value.tag == layout().tag_list && put_integers(value.payload)) {
        return true;
      }
    }
    const Apart apart =
        put_apart(source_, memory_, value.payload, value.tag, out_.position(), out_.end());
    if (FASTPROF_UNLIKELY(apart.end == nullptr)) return false;
    whole_ &= apart.whole;
    out_.back_to(apart.end);
    return true;
  }

  // std::string in libstdc++'s layout: address, length.
  bool put_text(uintptr_t address) noexcept {
    const auto text = memory_.template load<uintptr_t>(address);
    const auto length = memory_.template load<uint64_t>(address + 8);
    const size_t taken =
        length < kMaxInputTextBytes ? static_cast<size_t>(length) : kMaxInputTextBytes;
    Room<char, kMaxInputTextBytes> room;
    const char* bytes = room.view(memory_, text, taken);
    return bytes != nullptr && out_.put_text(bytes, static_cast<size_t>(length));
  }

  // A value as a keyword: texts and lists of texts too, which positions do not show.
  bool put_keyword(const ValueView& value) noexcept {
    if (value.tag == layout().tag_text) return put_text(value.payload + layout().text);
    if (value.tag != layout().tag_list) return put(value);
    ListView list;
    if (!list_at(value.payload, list)) return out_.put(InputKind::other);
    if (list.count == 0 || list.items[0].tag != layout().tag_text) return put(value);
    uint64_t* const before = out_.position();
    if (!out_.put(InputKind::list, 0, static_cast<uint32_t>(list.count))) return false;
    for (size_t i = 0; i < list.count; ++i) {
      const ValueView one = load_value(memory_, list.first + i * sizeof(ValueView));
      if (one.tag == layout().tag_text && put_text(one.payload + layout().text)) continue;
      out_.back_to(before);
      return out_.put(InputKind::other);
    }
    return true;
  }

 private:
  template <class T, size_t most>
  using Room = typename Memory::template Room<T, most>;

  static constexpr size_t kMaxListView = kMaxInputListLength + 1;
  struct ListView {
    const ValueView* items;
    size_t count;
    uintptr_t first;
    Room<ValueView, kMaxListView> room;
  };

  // Most tensors: defined, strided, of few dimensions. False, and nothing put, for others.
  FASTPROF_ALWAYS_INLINE bool put_small_tensor(uintptr_t tensor) noexcept {
    if (FASTPROF_UNLIKELY(tensor == source_.undefined() || layout().inline_dims < kMaxSmallDims))
      return false;
    const auto keys = memory_.template load<uint64_t>(tensor + layout().key_set);
    const auto symbolic = memory_.template load<uint8_t>(tensor + layout().symbolic);
    const auto dims = memory_.template load<uint64_t>(tensor + layout().sizes);
    if (FASTPROF_UNLIKELY(((keys & (layout().nested_keys | layout().unstrided_keys)) |
                           (symbolic & layout().symbolic_bits) | uint64_t{dims > kMaxSmallDims}) !=
                          0))
      return false;
    const auto dtype = memory_.template load<uint16_t>(tensor + layout().dtype);
    const uint32_t apart = layout().inline_dims;
    if (FASTPROF_UNLIKELY(apart > kMaxInputDims)) return false;
    Room<int64_t, 2 * kMaxInputDims> room;
    const int64_t* sizes = room.view(memory_, tensor + layout().sizes + 8, 2 * size_t{apart});
    if (FASTPROF_UNLIKELY(sizes == nullptr)) return false;
    return out_.put_small_tensor(static_cast<uint8_t>(dtype < 255 ? dtype : 255), sizes,
                                 sizes + apart, static_cast<uint32_t>(dims));
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
    Room<int64_t, 2 * kMaxInputDims> room;
    const int64_t* sizes = room.view(memory_, at, 2 * size_t{apart});
    if (sizes == nullptr) return false;
    const bool strided = (keys & layout().unstrided_keys) == 0;
    return out_.put_tensor(static_cast<uint8_t>(dtype < 255 ? dtype : 255), sizes,
                           strided ? sizes + apart : nullptr, n);
  }

  FASTPROF_ALWAYS_INLINE bool list_at(uintptr_t list, ListView& to) noexcept {
    to.first = memory_.template load<uintptr_t>(list + layout().list_items);
    const auto end = memory_.template load<uintptr_t>(list + layout().list_items + 8);
    to.count = (end - to.first) / sizeof(ValueView);
    const size_t viewed = to.count < kMaxListView ? to.count : kMaxListView;
    static constexpr ValueView none{};
    to.items = viewed == 0 ? &none : to.room.view(memory_, to.first, viewed);
    return to.items != nullptr;
  }

  // Most lists are sizes, dimensions and the like. A list that begins with an integer is none of
  // tensors, whatever the type of its elements. False, and nothing put, for other lists.
  FASTPROF_ALWAYS_INLINE bool put_integers(uintptr_t list) noexcept {
    ListView view;
    if (FASTPROF_UNLIKELY(!list_at(list, view) || view.count - 1 >= kMaxInputListLength))
      return false;
    uint64_t* const words = out_.room_for_packed_list(static_cast<uint32_t>(view.count));
    if (FASTPROF_UNLIKELY(words == nullptr)) return false;
    uint64_t word = 0, others = 0;
    for (size_t i = 0; i < view.count; ++i) {
      const uint64_t value = view.items[i].payload;
      others |= view.items[i].tag ^ layout().tag_integer;
      others |= value ^ static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)});
      word = i % 2 == 0 ? value & 0xFFFFFFFF : word | value << 32;
      words[i / 2] = word;
    }
    if (FASTPROF_UNLIKELY(others != 0)) return false;
    out_.finish_packed_list(static_cast<uint32_t>(view.count));
    return true;
  }

  // What is not put in line, at a position of another reader's.
  struct Apart {
    uint64_t* end;  // the position behind it; null when it did not fit
    bool whole;
  };
  FASTPROF_NOINLINE static Apart put_apart(Source source, Memory& memory, uintptr_t payload,
                                           uint32_t tag, uint64_t* at, uint64_t* end) noexcept {
    InputReader reader(source, memory, InputWords::amid(at, end));
    return {reader.put_any({payload, tag, 0}) ? reader.out_.position() : nullptr, reader.whole_};
  }

  bool put_any(const ValueView& value) noexcept {
    if (value.tag == layout().tag_tensor) return put_tensor(value.payload);
    if (value.tag == layout().tag_list) return put_any_list(value.payload);
    if (value.tag == layout().tag_complex) return put_complex(value.payload);
    if (value.tag == layout().tag_integer)
      return out_.put_integer(static_cast<int64_t>(value.payload));
    if (value.tag == layout().tag_real) return out_.put_real(value.payload);
    if (value.tag == layout().tag_boolean)
      return out_.put(InputKind::boolean, 0, static_cast<uint8_t>(value.payload));
    return out_.put(InputKind::other);
  }

  bool put_any_list(uintptr_t list) noexcept {
    const auto type = memory_.template load<uintptr_t>(list + layout().list_type);
    const auto kind = memory_.template load<uint32_t>(type + layout().type_kind);
    ListView view;
    if (!list_at(list, view)) return false;
    return kind == layout().kind_tensor ? put_tensors(view) : put_numbers(view);
  }

  bool put_tensors(const ListView& list) noexcept {
    uint64_t* const before = out_.position();
    if (!out_.put(InputKind::tensor_list, 0, static_cast<uint32_t>(list.count))) return false;
    for (size_t i = 0; i < list.count; ++i) {
      const ValueView one = load_value(memory_, list.first + i * sizeof(ValueView));
      if (one.tag == layout().tag_tensor ? put_tensor(one.payload) : out_.put(InputKind::undefined))
        continue;
      return cut_tensors(list, before);
    }
    return true;
  }

  // Again, with as many tensors as there is room for.
  FASTPROF_COLD bool cut_tensors(const ListView& list, uint64_t* before) noexcept {
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
      const ValueView one = load_value(memory_, list.first + i * sizeof(ValueView));
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

  bool put_numbers(const ListView& list) noexcept {
    const size_t count = list.count;
    if (count > kMaxInputListLength || (count != 0 && !is_number(list.items[0].tag)))
      return out_.put(InputKind::other);
    if (count == 0) return out_.put_packed_list(nullptr, 0);
    uint64_t* const before = out_.position();
    if (!out_.put(InputKind::list, 0, static_cast<uint32_t>(count))) return false;
    for (size_t i = 0; i < count; ++i) {
      const ValueView& one = list.items[i];
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

  FASTPROF_ALWAYS_INLINE const InputLayout& layout() const noexcept { return source_.layout(); }

  Source source_;
  Memory& memory_;
  InputWords out_;
  bool whole_ = true;
};

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
