// SPDX-License-Identifier: Apache-2.0
// InputWords: encodes op inputs as the words of payload/op_inputs/op_inputs.hpp.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "fastprof/base/config.hpp"
#include "fastprof/payload/op_inputs/op_inputs.hpp"

FASTPROF_NAMESPACE_BEGIN

// Encodes sizes and strides of a tensor with few dimensions as the words of
// payload/op_inputs/op_inputs.hpp, without a branch per dimension. Most op inputs are such tensors,
// with unpredictable numbers of dimensions, and one branch misprediction costs more than this
// function.

constexpr uint32_t kMaxSmallDims = 4;
constexpr uint32_t kSmallTensorWords = 5;  // maximum written, including the head, whatever is used

// Returns the number of words for the sizes; the strides take as many.
FASTPROF_ALWAYS_INLINE constexpr size_t small_number_words(uint32_t dims) noexcept {
  return (dims + 1) / 2;
}

// Writes the sizes, two per word, followed by the strides. Returns false if a number exceeds 32
// bits; the output is then invalid. `dims` <= kMaxSmallDims. kMaxSmallDims sizes and strides must
// be readable; those beyond `dims` are ignored.
FASTPROF_ALWAYS_INLINE bool put_small_numbers_one_by_one(uint64_t* words, const int64_t* sizes,
                                                         const int64_t* strides,
                                                         uint32_t dims) noexcept {
  uint64_t wide = 0;
  const auto put = [dims, &wide](uint64_t* to, const int64_t* numbers) {
    for (uint32_t i = 0; i < kMaxSmallDims; i += 2) {
      const uint64_t even = i < dims ? static_cast<uint64_t>(numbers[i]) : 0;
      const uint64_t odd = i + 1 < dims ? static_cast<uint64_t>(numbers[i + 1]) : 0;
      wide |= even | odd;
      to[i / 2] = even | odd << 32;
    }
  };
  put(words, sizes);  // the words beyond its dimensions are overwritten by the strides
  put(words + small_number_words(dims), strides);
  return wide >> 32 == 0;
}

#if defined(__SSE2__)
// As above, four numbers at a time.
FASTPROF_ALWAYS_INLINE bool put_small_numbers(uint64_t* words, const int64_t* sizes,
                                              const int64_t* strides, uint32_t dims) noexcept {
  alignas(32) static constexpr uint32_t kThere[8] = {~0u, ~0u, ~0u, ~0u, 0, 0, 0, 0};
  const auto load = [](const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); };
  const auto two = [load](const int64_t* at) { return _mm_castsi128_ps(load(at)); };
  const auto store = [](uint64_t* at, __m128i four) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), four);
  };
  constexpr int kLow = _MM_SHUFFLE(2, 0, 2, 0), kHigh = _MM_SHUFFLE(3, 1, 3, 1);
  const __m128i there = load(kThere + kMaxSmallDims - dims);
  const __m128 size01 = two(sizes), size23 = two(sizes + 2);
  const __m128 stride01 = two(strides), stride23 = two(strides + 2);
  const __m128 low_sizes = _mm_shuffle_ps(size01, size23, kLow);
  const __m128 low_strides = _mm_shuffle_ps(stride01, stride23, kLow);
  const __m128 high =
      _mm_or_ps(_mm_shuffle_ps(size01, size23, kHigh), _mm_shuffle_ps(stride01, stride23, kHigh));
  store(words, _mm_and_si128(_mm_castps_si128(low_sizes), there));
  store(words + small_number_words(dims), _mm_and_si128(_mm_castps_si128(low_strides), there));
  const __m128i wide = _mm_and_si128(_mm_castps_si128(high), there);
  return _mm_movemask_epi8(_mm_cmpeq_epi32(wide, _mm_setzero_si128())) == 0xFFFF;
}
#else
FASTPROF_ALWAYS_INLINE bool put_small_numbers(uint64_t* words, const int64_t* sizes,
                                              const int64_t* strides, uint32_t dims) noexcept {
  return put_small_numbers_one_by_one(words, sizes, strides, dims);
}
#endif

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
