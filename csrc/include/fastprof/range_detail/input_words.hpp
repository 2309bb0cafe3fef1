// SPDX-License-Identifier: Apache-2.0
// Writes the words of range_detail/op_inputs.hpp.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/range_detail/op_inputs.hpp"
#include "fastprof/range_detail/small_tensor.hpp"

FASTPROF_NAMESPACE_BEGIN

// How a number or nothing is put: words is 1, or 2 with the value in the second; in_high: which
// bits of the head its lower half is kept in, all of `high` for integers only. Words 0: it is
// neither.
struct ScalarCode {
  uint64_t in_high;
  uint32_t kind;  // InputKind
  uint32_t words;
};
constexpr ScalarCode kPutOther{0, static_cast<uint32_t>(InputKind::other), 1};
constexpr ScalarCode kPutInteger{uint64_t{0xFFFFFFFF} << 32,
                                 static_cast<uint32_t>(InputKind::integer), 1};
constexpr ScalarCode kPutBoolean{uint64_t{0xFF} << 32, static_cast<uint32_t>(InputKind::boolean),
                                 1};
constexpr ScalarCode kPutReal{0, static_cast<uint32_t>(InputKind::real), 2};

// Puts items into memory of the caller. What does not fit is left out: put returns false and
// nothing of it is there. Owning thread only.
class InputWords {
 public:
  InputWords(uint64_t* words, uint32_t capacity) noexcept
      : first_(words), at_(words + 1), end_(words + capacity) {}

  // Puts items between others.
  static InputWords amid(uint64_t* at, uint64_t* end) noexcept { return {nullptr, at, end}; }
  uint64_t* end() const noexcept { return end_; }

  // Completes word 0; the words used. Nothing may be put after it.
  uint32_t finish(uint32_t stored, uint32_t keywords, uint64_t given) noexcept {
    *first_ = stored | uint64_t{keywords} << 16 | given << 32;
    return static_cast<uint32_t>(at_ - first_);
  }

  uint64_t* position() const noexcept { return at_; }
  void back_to(uint64_t* position) noexcept { at_ = position; }

  FASTPROF_ALWAYS_INLINE bool put(InputKind kind, uint64_t bits = 0, uint32_t high = 0) noexcept {
    if (FASTPROF_UNLIKELY(at_ == end_)) return false;
    *at_++ = head(kind, bits, high);
    return true;
  }
  FASTPROF_ALWAYS_INLINE bool put_integer(int64_t value) noexcept {
    if (FASTPROF_LIKELY(value == static_cast<int32_t>(value)))
      return put(InputKind::integer, 0, static_cast<uint32_t>(value));
    return put_with(InputKind::integer, input_bit::wide, static_cast<uint64_t>(value));
  }
  // Without a branch for the kind. False when it is put otherwise: an integer that needs more than
  // 32 bits, or at the end of the room.
  FASTPROF_ALWAYS_INLINE bool put_scalar(const ScalarCode& code, uint64_t value) noexcept {
    // All bits set where it is an integer: the upper half is then to be the sign of the lower.
    const auto integer = static_cast<uint64_t>(static_cast<int64_t>(code.in_high) >> 63);
    const uint64_t narrow = static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)});
    if (FASTPROF_UNLIKELY(((value ^ narrow) & integer) != 0 || end_ - at_ < 2)) return false;
    at_[0] = (value << 32 & code.in_high) | code.kind;
    at_[1] = value;
    at_ += code.words;
    return true;
  }
  FASTPROF_ALWAYS_INLINE bool put_real(uint64_t bits) noexcept {
    return put_with(InputKind::real, 0, bits);
  }
  bool put_complex(const uint64_t (&bits)[2]) noexcept {
    if (end_ - at_ < 3) return false;
    put(InputKind::complex);
    *at_++ = bits[0];
    *at_++ = bits[1];
    return true;
  }
  // A tensor with strides, by the rules of put_small_numbers. False, and nothing put, where a
  // number is above 32 bits, and without room for the largest.
  FASTPROF_ALWAYS_INLINE bool put_small_tensor(uint8_t dtype, const int64_t* sizes,
                                               const int64_t* strides, uint32_t dims) noexcept {
    if (FASTPROF_UNLIKELY(static_cast<size_t>(end_ - at_) < kSmallTensorWords)) return false;
    const SmallTensor tensor = put_small_numbers(at_, sizes, strides, dims);
    if (FASTPROF_UNLIKELY(tensor.wide != 0)) return false;
    const uint32_t numbers = tensor.dense != 0 ? dims : 2 * dims;
    put_small_number(at_, numbers, 0);  // the padding, if any
    const uint64_t code = head(InputKind::tensor,
                               uint64_t{dtype} << 4 | uint64_t{dims} << 12 |
                                   (tensor.dense != 0 ? input_bit::contiguous : input_bit::strides),
                               0);
    const auto low = static_cast<uint32_t>(code);
    std::memcpy(at_, &low, sizeof low);
    at_ += 1 + numbers / 2;
    return true;
  }
  // dims <= kMaxInputDims. strides: null for a tensor that has none.
  bool put_tensor(uint8_t dtype, const int64_t* sizes, const int64_t* strides,
                  uint32_t dims) noexcept {
    uint64_t in_sizes = 0, in_strides = 0;
    bool contiguous = strides != nullptr;
    if (contiguous) {
      int64_t expected = 1;
      for (uint32_t i = dims; i-- > 0;) {
        in_sizes |= static_cast<uint64_t>(sizes[i]);
        in_strides |= static_cast<uint64_t>(strides[i]);
        contiguous &= strides[i] == expected;
        expected = static_cast<int64_t>(static_cast<uint64_t>(expected) *
                                        static_cast<uint64_t>(sizes[i] > 1 ? sizes[i] : 1));
      }
    } else {
      for (uint32_t i = 0; i < dims; ++i) in_sizes |= static_cast<uint64_t>(sizes[i]);
    }
    uint64_t bits = uint64_t{dtype} << 4 | uint64_t{dims} << 12;
    if (contiguous)
      bits |= input_bit::contiguous;
    else if (strides != nullptr)
      bits |= input_bit::strides;
    const bool both = (bits & input_bit::strides) != 0;
    const bool wide = ((in_sizes | (both ? in_strides : 0)) >> 32) != 0;
    const uint32_t numbers = both ? 2 * dims : dims;
    const uint32_t more = wide ? numbers : numbers / 2;
    if (FASTPROF_UNLIKELY(static_cast<size_t>(end_ - at_) < 1 + size_t{more})) return false;
    if (FASTPROF_UNLIKELY(wide)) {
      *at_++ = head(InputKind::tensor, bits | input_bit::wide, 0);
      for (uint32_t i = 0; i < dims; ++i) *at_++ = static_cast<uint64_t>(sizes[i]);
      for (uint32_t i = 0; both && i < dims; ++i) *at_++ = static_cast<uint64_t>(strides[i]);
      return true;
    }
    // Word k holds numbers 2k - 1 and 2k; the head, word 0, number 0 in its upper half.
    uint64_t word = static_cast<uint64_t>(InputKind::tensor) | bits;
    uint32_t n = 1;
    for (uint32_t i = 0; i < dims; ++i, ++n) push_half(word, n, static_cast<uint64_t>(sizes[i]));
    for (uint32_t i = 0; both && i < dims; ++i, ++n)
      push_half(word, n, static_cast<uint64_t>(strides[i]));
    if (n % 2 == 1) *at_++ = word;
    return true;
  }
  // 32-bit numbers only; false also when one is larger.
  bool put_packed_list(const int64_t* numbers, uint32_t count) noexcept {
    if (static_cast<size_t>(end_ - at_) < 1 + (size_t{count} + 1) / 2) return false;
    put(InputKind::list, input_bit::packed, count);
    for (uint32_t i = 0; i < count; i += 2) {
      const auto low = static_cast<uint32_t>(numbers[i]);
      const auto high = i + 1 < count ? static_cast<uint32_t>(numbers[i + 1]) : 0u;
      *at_++ = low | uint64_t{high} << 32;
    }
    return true;
  }
  // Where the numbers of a list of `count` >= 1 go, two a word; null without room. They are part of
  // the block once finish_packed_list was called.
  FASTPROF_ALWAYS_INLINE uint64_t* room_for_packed_list(uint32_t count) noexcept {
    return static_cast<size_t>(end_ - at_) < 1 + (size_t{count} + 1) / 2 ? nullptr : at_ + 1;
  }
  FASTPROF_ALWAYS_INLINE void finish_packed_list(uint32_t count) noexcept {
    *at_ = head(InputKind::list, input_bit::packed, count);
    at_ += 1 + (count + 1) / 2;
  }
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
  // Room for one word that is known later; null without.
  uint64_t* leave_word() noexcept { return at_ == end_ ? nullptr : at_++; }

  static uint64_t head(InputKind kind, uint64_t bits, uint32_t high) noexcept {
    return static_cast<uint64_t>(kind) | bits | uint64_t{high} << 32;
  }

 private:
  InputWords(uint64_t* first, uint64_t* at, uint64_t* end) noexcept
      : first_(first), at_(at), end_(end) {}
  FASTPROF_ALWAYS_INLINE bool put_with(InputKind kind, uint64_t bits, uint64_t word) noexcept {
    if (FASTPROF_UNLIKELY(end_ - at_ < 2)) return false;
    *at_++ = head(kind, bits, 0);
    *at_++ = word;
    return true;
  }
  FASTPROF_ALWAYS_INLINE void push_half(uint64_t& word, uint32_t n, uint64_t number) noexcept {
    if (n % 2 == 0) {
      word = number;
    } else {
      *at_++ = word | number << 32;
    }
  }

  uint64_t* first_;
  uint64_t* at_;
  uint64_t* end_;
};

FASTPROF_NAMESPACE_END
