// SPDX-License-Identifier: Apache-2.0
// Encodes the Values that a RecordFunction was given as the words of range_detail/op_inputs.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/span.hpp"
#include "fastprof/primitives/value_read.hpp"
#include "fastprof/range_detail/input_words.hpp"

FASTPROF_NAMESPACE_BEGIN

// Appends Values to memory of the caller. A put that returns false did not find room, and nothing
// of the item is there. Any thread, one at a time.
class ValueWords {
 public:
  ValueWords(uint64_t* words, uint32_t capacity) noexcept : words_(words, capacity) {}

  // An input. A list of tensors that is too long for the room keeps its first ones.
  bool put(const Value& value) noexcept {
    if (value.type() == ValueType::list) return put_list(value.as_list());
    return put_plain(value);
  }
  // A keyword input: its name and value.
  bool put(const NamedValue& named) noexcept {
    uint64_t* const before = words_.position();
    if (put_text(named.name) && put(named.value)) return true;
    words_.back_to(before);
    return false;
  }
  const uint64_t* end() const noexcept { return words_.position(); }

 private:
  bool put_text(std::string_view text) noexcept {
    return words_.put_text(text.data(), text.size());
  }

  // All but a list, which is recorded without contents where it is inside of another.
  bool put_plain(const Value& value) noexcept {
    switch (value.type()) {
      case ValueType::int64:
        return words_.put_integer(value.as_int64());
      case ValueType::float64: {
        const double number = value.as_float64();
        uint64_t bits;
        std::memcpy(&bits, &number, sizeof bits);
        return words_.put_number(InputKind::real, bits);
      }
      case ValueType::boolean:
        return words_.put_number(InputKind::boolean, value.as_bool() ? 1 : 0);
      case ValueType::string:
        return put_text(value.as_string());
      case ValueType::tensor:
        return put_tensor(value.as_tensor());
      case ValueType::none:
      case ValueType::list:
        break;
    }
    return words_.put(InputKind::other);
  }

  bool put_tensor(const TensorDescription& tensor) noexcept {
    const size_t dims = tensor.shape.size();
    if (dims > kMaxInputDims) return words_.put(InputKind::undefined);
    const bool has_strides = tensor.strides.size() == dims;
    return words_.put_tensor(static_cast<uint16_t>(tensor.dtype), tensor.shape.data(),
                             has_strides ? tensor.strides.data() : nullptr,
                             static_cast<uint32_t>(dims));
  }

  bool put_list(Span<const Value> values) noexcept {
    const auto is = [](ValueType type) {
      return [type](const Value& value) { return value.type() == type; };
    };
    if (!values.empty() && std::all_of(values.begin(), values.end(), is(ValueType::tensor)))
      return put_tensors(values);
    if (values.size() > kMaxInputListLength ||
        std::any_of(values.begin(), values.end(), [](const Value& value) {
          return value.type() == ValueType::tensor || value.type() == ValueType::list;
        }))
      return words_.put(InputKind::other);
    const auto count = static_cast<uint32_t>(values.size());
    if (std::all_of(values.begin(), values.end(), is(ValueType::int64))) {
      uint64_t* room = words_.room_for_packed_list(count);
      if (room == nullptr) return false;
      for (const Value& value : values) *room++ = static_cast<uint64_t>(value.as_int64());
      words_.finish_packed_list(count);
      return true;
    }
    uint64_t* const before = words_.position();
    bool whole = words_.put(InputKind::list, 0, count);
    for (const Value& value : values) whole = whole && put_plain(value);
    if (!whole) words_.back_to(before);
    return whole;
  }

  bool put_tensors(Span<const Value> values) noexcept {
    const auto given =
        static_cast<uint32_t>(std::min(values.size(), static_cast<size_t>(UINT32_MAX)));
    uint64_t* const before = words_.position();
    bool whole = words_.put(InputKind::tensor_list, 0, given);
    for (const Value& value : values) whole = whole && put_tensor(value.as_tensor());
    if (whole) return true;
    // Again, with the number of those for which there is room.
    words_.back_to(before);
    uint64_t* stored = nullptr;
    if (words_.put(InputKind::tensor_list, input_bit::cut, given)) stored = words_.leave_word();
    if (stored == nullptr) {
      words_.back_to(before);
      return false;
    }
    *stored = 0;
    for (const Value& value : values) {
      if (!put_tensor(value.as_tensor())) break;
      ++*stored;
    }
    return true;
  }

  InputWords words_;
};

// The contents of a DetailType::shapes block; returns the words used, at most `capacity`, which is
// at least 1. Inputs without room are left out and counted in the block.
inline uint32_t encode_input_values(uint64_t* words, uint32_t capacity, Span<const Value> inputs,
                                    Span<const NamedValue> kwinputs) noexcept {
  ValueWords to(words, capacity);
  const size_t most = std::min<size_t>(inputs.size(), 0xFFFF);
  uint32_t stored = 0, keywords = 0;
  while (stored < most && to.put(inputs[stored])) ++stored;
  while (keywords < std::min<size_t>(kwinputs.size(), 0xFFFF) && to.put(kwinputs[keywords]))
    ++keywords;
  const uint64_t given = std::min<uint64_t>(inputs.size(), UINT32_MAX);
  return InputWords::finish(words, to.end(), stored, keywords, given);
}

FASTPROF_NAMESPACE_END
