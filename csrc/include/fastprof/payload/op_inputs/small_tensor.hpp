// SPDX-License-Identifier: Apache-2.0
// Encodes sizes and strides of a tensor with few dimensions as the words of
// payload/op_inputs/op_inputs.hpp, without a branch per dimension. Most op inputs are such tensors,
// with unpredictable numbers of dimensions, and one branch misprediction costs more than this
// function.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

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

FASTPROF_NAMESPACE_END
