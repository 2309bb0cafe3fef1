// SPDX-License-Identifier: Apache-2.0
// Parses numbers of trace events from their JSON text.
#pragma once

#include <cstdint>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_rows {

// Parses digits from `at`; returns the first byte that is not one.
inline const char* parse_digits(const char* at, const char* end, uint64_t& value) noexcept {
  value = 0;
  for (; at != end && *at >= '0' && *at <= '9'; ++at)
    value = value * 10 + static_cast<uint64_t>(*at - '0');
  return at;
}

// Parses a valid JSON number that is an integer of at most `digits` (<= 18) digits.
inline bool parse_int(std::string_view text, int64_t& value, size_t digits = 18) noexcept {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  if (at == end || static_cast<size_t>(end - at) > digits) return false;
  uint64_t size = 0;
  if (parse_digits(at, end, size) != end) return false;
  value = negative ? -static_cast<int64_t>(size) : static_cast<int64_t>(size);
  return true;
}

// Parses a JSON number that is an integer, as a word: negative ones as two's complement. Returns
// false for other numbers and those outside [-1e18, 2^64).
inline bool parse_word(std::string_view text, int64_t& value) noexcept {
  if (parse_int(text, value)) return true;
  if (text.size() != 19 && text.size() != 20) return false;
  uint64_t word = 0;
  for (const char c : text) {
    const auto digit = static_cast<uint64_t>(c) - '0';
    if (digit > 9 || word > (UINT64_MAX - digit) / 10) return false;
    word = word * 10 + digit;
  }
  value = static_cast<int64_t>(word);
  return true;
}

constexpr uint64_t kMostTimeNs = uint64_t{4000000000000000} * 1000;  // the sum of two fits 64 bits

// parse_us() for numbers with more than three decimals, an exponent or many digits: takes the
// digits as one integer, cut after the ns, and rounds by the digits after the cut.
inline bool parse_long_us(std::string_view text, int64_t& ns) noexcept {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* const digits = at;
  const auto is_digit = [end](const char* c) { return c != end && *c >= '0' && *c <= '9'; };
  if (!is_digit(at)) return false;  // not a finite number
  while (is_digit(at)) ++at;
  int64_t kept = at - digits + 3;  // number of digits before the end of the ns
  if (at != end && *at == '.') {
    ++at;
    while (is_digit(at)) ++at;
  }
  const char* const digits_end = at;
  if (at != end) {
    if (*at != 'e' && *at != 'E') return false;
    ++at;
    const bool down = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    uint64_t exponent = 0;
    if (at == end || end - at > 4 || parse_digits(at, end, exponent) != end) return false;
    kept += down ? -static_cast<int64_t>(exponent) : static_cast<int64_t>(exponent);
  }
  if (kept < 0) {  // less than 0.1 ns
    ns = 0;
    return true;
  }
  uint64_t value = 0;
  int64_t taken = 0;
  unsigned next = 0;     // the first digit after the cut
  bool is_more = false;  // whether any later digit is not 0
  for (const char* c = digits; c != digits_end; ++c) {
    if (*c == '.') continue;
    const auto digit = static_cast<unsigned>(*c - '0');
    if (taken < kept) {
      if (value > kMostTimeNs / 10) return false;  // before the product can wrap around
      value = value * 10 + digit;
    } else if (taken == kept) {
      next = digit;
    } else {
      is_more = is_more || digit != 0;
    }
    ++taken;
  }
  for (; taken < kept && value != 0; ++taken) {
    if (value > kMostTimeNs / 10) return false;
    value *= 10;
  }
  if (next > 5 || (next == 5 && (is_more || value % 2 != 0))) ++value;
  ns = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  return value <= kMostTimeNs;
}

// Converts a JSON number of microseconds to ns. Converts the decimal value itself, not a double
// near it, and rounds to the nearest ns, ties to even, like importers/decimal_times.py. Returns
// false unless it is a finite number within +-4e15 us.
inline bool parse_us(std::string_view text, int64_t& ns) noexcept {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  if (end - at > 16 + 4) return parse_long_us(text, ns);
  uint64_t value = 0;
  const char* const point = parse_digits(at, end, value);
  if (point == at) return false;
  const auto decimals = end - point - 1;  // -1: an integer
  if (point - at > 16 || decimals > 3 || (decimals >= 0 && *point != '.'))
    return parse_long_us(text, ns);
  constexpr uint64_t kScale[] = {1000, 1000, 100, 10, 1};
  uint64_t rest = 0;
  if (decimals > 0 && parse_digits(point + 1, end, rest) != end) return parse_long_us(text, ns);
  value = value * 1000 + rest * kScale[decimals + 1];
  ns = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  return value <= kMostTimeNs;
}

}  // namespace trace_rows
FASTPROF_NAMESPACE_END
