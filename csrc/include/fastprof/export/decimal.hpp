// SPDX-License-Identifier: Apache-2.0
// Formats integers as decimal text, three digits at a time. Each function writes at `out` and
// returns the end.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Table of the texts "000" to "999".
struct DecimalDigits {
  char text[1000][4];
  constexpr DecimalDigits() : text{} {
    for (int i = 0; i < 1000; ++i) {
      text[i][0] = static_cast<char>('0' + i / 100);
      text[i][1] = static_cast<char>('0' + i / 10 % 10);
      text[i][2] = static_cast<char>('0' + i % 10);
    }
  }
};
inline constexpr DecimalDigits kDecimalDigits;

// Writes exactly three digits, and a fourth byte that the next write must overwrite.
FASTPROF_ALWAYS_INLINE char* put_three(char* out, uint32_t below_1000) noexcept {
  std::memcpy(out, kDecimalDigits.text[below_1000], 4);
  return out + 3;
}

// Writes one to three digits, without leading zeros.
FASTPROF_ALWAYS_INLINE char* put_leading(char* out, uint32_t below_1000) noexcept {
  const char* digits = kDecimalDigits.text[below_1000];
  const int skip = (below_1000 < 10) + (below_1000 < 100);
  std::memcpy(out, digits + skip, 2);
  out[2] = digits[2];
  return out + 3 - skip;
}

// Writes at most 20 digits; up to four more bytes may be overwritten.
inline char* put_decimal(char* out, uint64_t value) noexcept {
  if (FASTPROF_LIKELY(value < 1000)) return put_leading(out, static_cast<uint32_t>(value));
  if (value < 1000000) {
    const auto low = static_cast<uint32_t>(value);
    return put_three(put_leading(out, low / 1000), low % 1000);
  }
  std::array<uint32_t, 7> groups;
  size_t count = 0;
  for (; value >= 1000; value /= 1000) groups[count++] = static_cast<uint32_t>(value % 1000);
  out = put_leading(out, static_cast<uint32_t>(value));
  while (count > 0) out = put_three(out, groups[--count]);
  return out;
}

inline char* put_decimal_signed(char* out, int64_t value) noexcept {
  if (value >= 0) return put_decimal(out, static_cast<uint64_t>(value));
  *out = '-';
  return put_decimal(out + 1, 0 - static_cast<uint64_t>(value));
}

// Writes nanoseconds as microseconds with exactly three decimals.
inline char* put_microseconds(char* out, int64_t ns) noexcept {
  auto size = static_cast<uint64_t>(ns);
  if (ns < 0) {
    *out++ = '-';
    size = 0 - size;
  }
  out = put_decimal(out, size / 1000);
  *out = '.';
  return put_three(out + 1, static_cast<uint32_t>(size % 1000));
}

// Writes lower-case hexadecimal digits, without prefix.
inline char* put_hex(char* out, uint64_t value) noexcept {
  int shift = 60;
  while (shift > 0 && (value >> shift) == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) *out++ = "0123456789abcdef"[value >> shift & 15];
  return out;
}

FASTPROF_NAMESPACE_END
