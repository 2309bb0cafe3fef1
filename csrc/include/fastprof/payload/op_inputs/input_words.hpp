// SPDX-License-Identifier: Apache-2.0
// InputWords: encodes op inputs as the words of payload/op_inputs/op_inputs.hpp.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/op_inputs/op_inputs.hpp"
#include "fastprof/payload/op_inputs/small_tensor.hpp"

FASTPROF_NAMESPACE_BEGIN

// Appends items to the caller's memory. If an item does not fit, put returns false and writes
// nothing of it. Owning thread only.
class InputWords {
 public:
  // For the items of a block, which follow its word 0.
  InputWords(uint64_t* words, uint32_t capacity) noexcept
      : InputWords(words + 1, words + capacity) {}
  // For items at a given position.
  static InputWords amid(uint64_t* at, uint64_t* end) noexcept { return {at, end}; }

  // Writes word 0 of a block whose items end at `end`. Returns the number of words used.
  static uint32_t finish(uint64_t* words, const uint64_t* end, uint32_t stored, uint32_t keywords,
                         uint64_t given) noexcept {
    words[0] = stored | uint64_t{keywords} << 16 | given << 32;
    return static_cast<uint32_t>(end - words);
  }

  // Where the next item goes. back_to() discards the items behind a position.
  uint64_t* position() const noexcept { return at_; }
  void back_to(uint64_t* position) noexcept { at_ = position; }

  // Puts the head of an item, which is all of a kind without content.
  FASTPROF_ALWAYS_INLINE bool put(InputKind kind, uint64_t bits = 0, uint32_t high = 0) noexcept {
    if (FASTPROF_UNLIKELY(at_ == end_)) return false;
    *at_++ = head(kind, bits, high);
    return true;
  }
  // Puts a number (2 words) or a kind without value (1 word), without branching on which. Always
  // requires room for 2 words.
  FASTPROF_ALWAYS_INLINE bool put_scalar(InputKind kind, uint64_t value, uint32_t words) noexcept {
    if (FASTPROF_UNLIKELY(at_ + 2 > end_)) return false;
    at_[0] = static_cast<uint64_t>(kind);
    at_[1] = value;
    at_ += words;
    return true;
  }
  bool put_number(InputKind kind, uint64_t value) noexcept { return put_scalar(kind, value, 2); }
  bool put_integer(int64_t value) noexcept {
    return put_number(InputKind::integer, static_cast<uint64_t>(value));
  }
  bool put_complex(const uint64_t (&bits)[2]) noexcept {
    if (end_ - at_ < 3) return false;
    put(InputKind::complex);
    *at_++ = bits[0];
    *at_++ = bits[1];
    return true;
  }
  // As put_tensor, for a tensor with strides and at most kMaxSmallDims dimensions; readable memory
  // as for put_small_numbers. Returns false, with nothing put, if a number exceeds 32 bits or there
  // is not enough room for the largest such tensor.
  FASTPROF_ALWAYS_INLINE bool put_small_tensor(uint16_t dtype, const int64_t* sizes,
                                               const int64_t* strides, uint32_t dims) noexcept {
    if (FASTPROF_UNLIKELY(at_ + kSmallTensorWords > end_)) return false;
    if (FASTPROF_UNLIKELY(!put_small_numbers(at_ + 1, sizes, strides, dims))) return false;
    at_[0] = tensor_head(dtype, dims, input_bit::strides);
    at_ += 1 + 2 * small_number_words(dims);
    return true;
  }
  // Puts a tensor. dims <= kMaxInputDims. strides: null if the tensor has none.
  bool put_tensor(uint16_t dtype, const int64_t* sizes, const int64_t* strides,
                  uint32_t dims) noexcept {
    uint64_t all = 0;
    for (uint32_t i = 0; i < dims; ++i) all |= static_cast<uint64_t>(sizes[i]);
    for (uint32_t i = 0; strides != nullptr && i < dims; ++i)
      all |= static_cast<uint64_t>(strides[i]);
    const bool wide = all >> 32 != 0;
    const size_t words = wide ? dims : (dims + 1) / 2;
    if (static_cast<size_t>(end_ - at_) < 1 + (strides != nullptr ? 2 : 1) * words) return false;
    *at_++ = tensor_head(
        dtype, dims, (wide ? input_bit::wide : 0) | (strides != nullptr ? input_bit::strides : 0));
    put_numbers(sizes, dims, wide);
    if (strides != nullptr) put_numbers(strides, dims, wide);
    return true;
  }
  // Returns the memory for `count` integers of a list, one word each; null if it does not fit.
  // finish_packed_list() makes them part of the block.
  FASTPROF_ALWAYS_INLINE uint64_t* room_for_packed_list(uint32_t count) noexcept {
    return static_cast<size_t>(end_ - at_) < 1 + size_t{count} ? nullptr : at_ + 1;
  }
  FASTPROF_ALWAYS_INLINE void finish_packed_list(uint32_t count) noexcept {
    *at_ = head(InputKind::list, input_bit::packed, count);
    at_ += 1 + size_t{count};
  }
  // Puts a text, cut at kMaxInputTextBytes.
  bool put_text(const char* text, size_t length) noexcept {
    const bool cut = length > kMaxInputTextBytes;
    if (cut) length = kMaxInputTextBytes;
    if (static_cast<size_t>(end_ - at_) < 1 + (length + 7) / 8) return false;
    put(InputKind::text, cut ? input_bit::cut : 0, static_cast<uint32_t>(length));
    for (size_t i = 0; i < length; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text + i, length - i < 8 ? length - i : 8);
      *at_++ = word;
    }
    return true;
  }
  // Reserves one word to be filled later; null if it does not fit.
  uint64_t* leave_word() noexcept { return at_ == end_ ? nullptr : at_++; }

  static uint64_t head(InputKind kind, uint64_t bits, uint32_t high) noexcept {
    return static_cast<uint64_t>(kind) | bits | uint64_t{high} << 32;
  }

 private:
  InputWords(uint64_t* at, uint64_t* end) noexcept : at_(at), end_(end) {}

  FASTPROF_ALWAYS_INLINE static uint64_t tensor_head(uint16_t dtype, uint32_t dims,
                                                     uint64_t bits) noexcept {
    return static_cast<uint64_t>(InputKind::tensor) | bits | uint64_t{dims} << 8 |
           uint64_t{dtype} << 16;
  }
  void put_numbers(const int64_t* numbers, uint32_t count, bool wide) noexcept {
    for (uint32_t i = 0; i < count; ++i) {
      const auto number = static_cast<uint64_t>(numbers[i]);
      if (wide || i % 2 == 0)
        *at_++ = number;
      else
        at_[-1] |= number << 32;
    }
  }

  uint64_t* at_;
  uint64_t* end_;
};

FASTPROF_NAMESPACE_END
