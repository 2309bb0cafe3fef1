// SPDX-License-Identifier: Apache-2.0
// The sizes and strides of a tensor of few dimensions as the words of range_detail/op_inputs.hpp,
// without a branch for each dimension: most inputs of ops are such, in no order, and each guess
// that fails costs more than all of this.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kMaxSmallDims = 4;
constexpr uint32_t kSmallTensorWords = 5;  // that may be written, the head too, whatever is used

// Words that the sizes take, and the strides.
FASTPROF_ALWAYS_INLINE constexpr size_t small_number_words(uint32_t dims) noexcept {
  return (dims + 1) / 2;
}

// Puts the sizes, two a word, and the strides behind them. False when one needs more than 32 bits:
// then nothing of it is to be used. `dims` <= kMaxSmallDims; that many sizes and strides must be
// readable, those behind `dims` may be anything.
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
  put(words, sizes);  // what lies behind its dimensions is where strides will
  put(words + small_number_words(dims), strides);
  return wide >> 32 == 0;
}

#if defined(__SSE2__)
// The same, four at a time.
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

FASTPROF_NAMESPACE_END
