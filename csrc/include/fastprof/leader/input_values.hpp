// SPDX-License-Identifier: Apache-2.0
// Encoder of a RecordFunction's Values into the words of an op_inputs block (format:
// payload/op_inputs/op_inputs.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/op_inputs/input_words.hpp"
#include "fastprof/primitives/span.hpp"
#include "fastprof/primitives/value_read.hpp"

FASTPROF_NAMESPACE_BEGIN

// Writes encoded Values to the caller's memory. put() returns false, and writes nothing, if there
// is no room for the item. Not thread-safe.
class ValueWords {
 public:
  ValueWords(uint64_t* words, uint32_t capacity) noexcept : words_(words, capacity) {}

  // Writes an input. A list of tensors for which there is not enough room is truncated.
  bool put(const Value& value) noexcept {
    if (value.type() == ValueType::list) return put_list(value.as_list());
    return put_plain(value);
  }
  // Writes a keyword input: its name and value.
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

  // Writes any value except a list. A list (nested in another) becomes InputKind::other.
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
    // Not enough room: write as many as fit, and their number.
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

// Writes the contents of a DetailType::op_inputs block. Returns the words used, at most `capacity`
// (>= 1). Inputs for which there is no room are omitted but counted in the block.
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
