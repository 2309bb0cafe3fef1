// SPDX-License-Identifier: Apache-2.0
// Encoding of an op's inputs as the words of a DetailType::op_inputs block. Written on the op's
// thread (input_words.hpp), decoded when text or columns are made.
//
//   word 0: inputs stored | keyword inputs stored << 16 | inputs of the op << 32
// An item for each input follows; then, for each keyword input, a text item (its name) and an item.
// An item is a head word followed by the content of its kind:
//   bits 0-3 InputKind, 4-7 input_bit, 8-15 dimensions, 16-31 dtype (DType), 32-63 `high`
//   other, undefined        nothing
//   tensor                  its sizes, then (bit strides) its strides, then (bit storage) the
//                           address of its storage's memory. `wide`: sizes and strides are signed,
//                           one per word; else uint32, two per word, lower half first, the last
//                           word of either padded with 0
//   integer, real, boolean  one word: signed, the bits of a double, 0 or 1
//   complex                 two words: the bits of two doubles
//   list                    `high` items; `packed`: as many signed integers, one per word
//   tensor_list             `high`: tensors given; `cut`: the next word is the number of tensors
//                           stored
//   text                    `high` bytes, eight per word; `cut`: the text was longer
//
// Optimised for fast writing, not for size: ops repeat their inputs, and the drain stores each
// distinct block once (block_interner.hpp). python/fastprof/decode/op_inputs.py decodes the same
// format; a test compares the two.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Kind of an input. Values are ABI: append only.
enum class InputKind : uint8_t {
  other = 0,  // not recorded: none, devices, dictionaries, long lists, ...
  tensor = 1,
  undefined = 2,  // a tensor without known sizes: undefined, nested or symbolic sizes
  integer = 3,
  real = 4,
  boolean = 5,
  complex = 6,
  list = 7,
  tensor_list = 8,
  text = 9,
};

namespace input_bit {
constexpr uint64_t wide = 1u << 4;
constexpr uint64_t packed = 1u << 4;
constexpr uint64_t strides = 1u << 5;
constexpr uint64_t cut = 1u << 6;
constexpr uint64_t storage = 1u << 7;
}  // namespace input_bit

constexpr uint32_t kMaxInputDims = 64;
constexpr uint32_t kMaxInputListLength = 30;  // longer ones become `other`, as in PyTorch
constexpr uint32_t kMaxInputTextBytes = 256;

// One decoded input. Each field lists the kinds that use it.
struct OpInput {
  InputKind kind = InputKind::other;
  uint16_t dtype = 0;              // tensor
  bool has_strides = false;        // tensor: false for layouts without strides
  std::vector<int64_t> sizes;      // tensor
  std::vector<int64_t> strides;    // tensor
  uint64_t storage = 0;            // tensor: address of its storage's memory; 0: not recorded
  int64_t integer = 0;             // integer, boolean
  double real = 0, imaginary = 0;  // real, complex
  std::string text;                // text; bytes
  bool cut = false;                // text: the original was longer
  std::vector<OpInput> items;      // list, tensor_list
  uint64_t given = 0;              // tensor_list: its length; `items` may be a prefix
};

// The decoded inputs of one op.
struct OpInputs {
  std::vector<OpInput> inputs;
  std::vector<std::pair<std::string, OpInput>> keywords;
  uint64_t given = 0;  // inputs of the op; `inputs` may be a prefix
};

namespace op_inputs_detail {

// Cursor over the words of a block; every read is bounds-checked.
class Reader {
 public:
  Reader(const uint64_t* words, size_t count) noexcept : at_(words), end_(words + count) {}
  size_t left() const noexcept { return static_cast<size_t>(end_ - at_); }
  uint64_t next() noexcept { return *at_++; }

  // Decodes one item. Returns false if the words end early or the kind is invalid.
  bool item(OpInput& to, int depth = 0) {
    if (left() == 0) return false;
    const uint64_t head = next();
    const auto high = static_cast<uint32_t>(head >> 32);
    to.kind = static_cast<InputKind>(head & 15);
    switch (to.kind) {
      case InputKind::other:
      case InputKind::undefined:
        return true;
      case InputKind::tensor:
        return tensor(to, head);
      case InputKind::integer:
      case InputKind::boolean:
        return integer(to.integer);
      case InputKind::real:
        return number(to.real);
      case InputKind::complex:
        return number(to.real) && number(to.imaginary);
      case InputKind::list:
        return list(to, head, high, depth);
      case InputKind::tensor_list: {
        to.given = high;
        uint64_t stored = high;
        if ((head & input_bit::cut) != 0) {
          if (left() < 1) return false;
          stored = next();
        }
        return items(to, stored, depth);
      }
      case InputKind::text: {
        const size_t words = (size_t{high} + 7) / 8;
        if (left() < words) return false;
        to.text.resize(high);
        if (high != 0) std::memcpy(&to.text[0], at_, high);
        at_ += words;
        to.cut = (head & input_bit::cut) != 0;
        return true;
      }
    }
    return false;
  }

 private:
  bool integer(int64_t& to) noexcept {
    if (left() < 1) return false;
    to = static_cast<int64_t>(next());
    return true;
  }
  bool number(double& to) noexcept {
    if (left() < 1) return false;
    const uint64_t word = next();
    std::memcpy(&to, &word, sizeof to);
    return true;
  }
  bool items(OpInput& to, uint64_t count, int depth) {
    if (count > left() || depth > 0) return false;
    to.items.resize(static_cast<size_t>(count));
    for (OpInput& one : to.items)
      if (!item(one, depth + 1)) return false;
    return true;
  }
  bool list(OpInput& to, uint64_t head, uint32_t count, int depth) {
    if ((head & input_bit::packed) == 0) return items(to, count, depth);
    if (left() < count) return false;
    to.items.resize(count);
    for (OpInput& one : to.items) {
      one.kind = InputKind::integer;
      one.integer = static_cast<int64_t>(next());
    }
    return true;
  }
  bool tensor(OpInput& to, uint64_t head) {
    to.dtype = static_cast<uint16_t>(head >> 16);
    const auto dims = static_cast<uint32_t>(head >> 8 & 255);
    const bool wide = (head & input_bit::wide) != 0;
    to.has_strides = (head & input_bit::strides) != 0;
    if (!numbers(to.sizes, dims, wide) || (to.has_strides && !numbers(to.strides, dims, wide)))
      return false;
    if ((head & input_bit::storage) == 0) return true;
    if (left() < 1) return false;
    to.storage = next();
    return true;
  }
  bool numbers(std::vector<int64_t>& to, uint32_t count, bool wide) {
    const uint32_t words = wide ? count : (count + 1) / 2;
    if (left() < words) return false;
    for (uint32_t i = 0; i < count; ++i)
      to.push_back(wide ? static_cast<int64_t>(at_[i])
                        : static_cast<uint32_t>(at_[i / 2] >> (i % 2 == 0 ? 0 : 32)));
    at_ += words;
    return true;
  }

  const uint64_t* at_;
  const uint64_t* end_;
};

}  // namespace op_inputs_detail

// Decodes the contents of a block, checking every index. If something is malformed, returns false;
// `to` holds what precedes it.
inline bool decode_op_inputs(const uint64_t* words, size_t count, OpInputs& to) {
  if (count == 0) return false;
  const auto stored = static_cast<uint32_t>(words[0] & 0xFFFF);
  const auto keywords = static_cast<uint32_t>(words[0] >> 16 & 0xFFFF);
  to.given = words[0] >> 32;
  op_inputs_detail::Reader reader(words + 1, count - 1);
  for (uint32_t i = 0; i < stored; ++i) {
    OpInput one;
    if (!reader.item(one)) return false;
    to.inputs.push_back(std::move(one));
  }
  for (uint32_t i = 0; i < keywords; ++i) {
    OpInput name, value;
    if (!reader.item(name) || name.kind != InputKind::text || !reader.item(value)) return false;
    to.keywords.emplace_back(std::move(name.text), std::move(value));
  }
  return true;
}

FASTPROF_NAMESPACE_END
