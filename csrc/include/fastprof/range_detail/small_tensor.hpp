// SPDX-License-Identifier: Apache-2.0
// A tensor of few dimensions as the words of range_detail/op_inputs.hpp, without a branch for each
// dimension: most inputs of ops are such, in no order, and each guess that fails costs more than
// all of this.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kMaxSmallDims = 4;
constexpr uint32_t kSmallTensorWords = 5;  // that may be written, whatever is used

// What its numbers say.
struct SmallTensor {
  uint32_t dense;  // not 0: strides are those of a row-major tensor without gaps
  uint32_t wide;   // not 0: some number needs more than 32 bits; then nothing is to be used
};

// Number n of a head that is to be written at `words`.
FASTPROF_ALWAYS_INLINE void put_small_number(uint64_t* words, size_t n, uint32_t number) noexcept {
  std::memcpy(reinterpret_cast<char*>(words) + 4 + 4 * n, &number, sizeof number);
}

// Puts the sizes behind the lower half of words[0], two a word, and the strides behind them: all
// that may be used, so that who leaves the strides out does it by the length. `dims` <=
// kMaxSmallDims; that many sizes and strides must be readable, those behind `dims` may be anything.
FASTPROF_ALWAYS_INLINE SmallTensor put_small_numbers_one_by_one(uint64_t* words,
                                                                const int64_t* sizes,
                                                                const int64_t* strides,
                                                                uint32_t dims) noexcept {
  uint64_t expected = 1, differs = 0, wide = 0;
  // The last first: a size behind `dims` lies where an earlier stride will.
  for (uint32_t i = kMaxSmallDims; i-- > 0;) {
    const uint64_t there = uint64_t{0} - static_cast<uint64_t>(i < dims);
    const uint64_t size = static_cast<uint64_t>(sizes[i]) & there;
    const uint64_t stride = static_cast<uint64_t>(strides[i]) & there;
    differs |= (stride ^ expected) & there;
    wide |= size | stride;
    expected *= size > 1 ? size : 1;
    put_small_number(words, i, static_cast<uint32_t>(size));
    put_small_number(words, dims + i, static_cast<uint32_t>(stride));
  }
  return {differs == 0, static_cast<uint32_t>(wide >> 32)};
}

#if defined(__SSE2__)
// The same, four at a time. Strides are dense when each is the product of the next one and its
// size: behind the last dimension, both count as 1.
FASTPROF_ALWAYS_INLINE SmallTensor put_small_numbers(uint64_t* words, const int64_t* sizes,
                                                     const int64_t* strides,
                                                     uint32_t dims) noexcept {
  alignas(64) static constexpr uint32_t kOnes[11] = {0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0};
  const uint32_t* ones = kOnes;
  __asm__("" : "+r"(ones));  // one cache line, not one for each constant that it is made into
  const auto load = [](const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); };
  const auto store = [words](size_t n, __m128i four) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(reinterpret_cast<char*>(words) + 4 + 4 * n), four);
  };
  const __m128i zero = _mm_setzero_si128();
  const __m128i last_one = load(ones), one = load(ones + 3), present = load(ones + 7 - dims);
  const __m128i there = _mm_sub_epi32(zero, present);

  const __m128 size01 = _mm_castsi128_ps(load(sizes)), size23 = _mm_castsi128_ps(load(sizes + 2));
  const __m128 stride01 = _mm_castsi128_ps(load(strides));
  const __m128 stride23 = _mm_castsi128_ps(load(strides + 2));
  constexpr int kLow = _MM_SHUFFLE(2, 0, 2, 0), kHigh = _MM_SHUFFLE(3, 1, 3, 1);
  const __m128i size = _mm_and_si128(_mm_castps_si128(_mm_shuffle_ps(size01, size23, kLow)), there);
  const __m128i stride =
      _mm_and_si128(_mm_castps_si128(_mm_shuffle_ps(stride01, stride23, kLow)), there);
  const __m128 high =
      _mm_or_ps(_mm_shuffle_ps(size01, size23, kHigh), _mm_shuffle_ps(stride01, stride23, kHigh));
  const __m128i wide = _mm_and_si128(_mm_castps_si128(high), there);
  store(0, size);  // a size behind `dims` lies where a stride will
  store(dims, stride);

  const __m128i step = _mm_or_si128(stride, _mm_sub_epi32(one, present));
  const __m128i at_least_one = _mm_sub_epi32(size, _mm_cmpeq_epi32(size, zero));
  const __m128i next_step = _mm_or_si128(_mm_srli_si128(step, 4), last_one);
  const __m128i next_size = _mm_or_si128(_mm_srli_si128(at_least_one, 4), last_one);
  const __m128i even = _mm_mul_epu32(next_step, next_size);
  const __m128i odd = _mm_mul_epu32(_mm_srli_epi64(next_step, 32), _mm_srli_epi64(next_size, 32));
  const __m128i differs =
      _mm_or_si128(_mm_xor_si128(even, _mm_srli_epi64(_mm_slli_epi64(step, 32), 32)),
                   _mm_xor_si128(odd, _mm_srli_epi64(step, 32)));
  const auto zeros = [zero](__m128i four) {
    return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi32(four, zero)));
  };
  return {zeros(differs) == 0xFFFF, zeros(wide) ^ 0xFFFF};
}
#else
FASTPROF_ALWAYS_INLINE SmallTensor put_small_numbers(uint64_t* words, const int64_t* sizes,
                                                     const int64_t* strides,
                                                     uint32_t dims) noexcept {
  return put_small_numbers_one_by_one(words, sizes, strides, dims);
}
#endif

FASTPROF_NAMESPACE_END
