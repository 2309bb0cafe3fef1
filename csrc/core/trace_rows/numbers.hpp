// SPDX-License-Identifier: Apache-2.0
// Numbers of trace events, from their JSON text.
#pragma once

#include <charconv>
#include <cmath>
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

// Converts a JSON number of microseconds to ns, exactly as from the nearest double: whole part *
// 1000 plus the rounded rest. Returns false for what is not a finite number within +-4e15.
inline bool parse_us(std::string_view text, int64_t& ns) noexcept {
  // A double below 2^43 us is exact to 0.0005 us, so three decimals survive.
  constexpr uint64_t kExactUs = uint64_t{1} << 43;
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  uint64_t whole = 0;
  const char* const point = end - at > 16 + 24 ? at : parse_digits(at, end, whole);
  const auto digits = point - at;
  if (digits > 0 && digits <= 15 && point == end) {
    ns = static_cast<int64_t>(whole) * 1000;
    if (negative) ns = -ns;
    return true;
  }
  if (digits > 0 && digits <= 13 && whole < kExactUs && *point == '.' && end - point <= 4) {
    uint64_t rest = 0;
    if (parse_digits(point + 1, end, rest) == end) {
      for (auto i = end - point; i < 4; ++i) rest *= 10;
      ns = static_cast<int64_t>(whole * 1000 + rest);
      if (negative) ns = -ns;
      return true;
    }
  }
#if defined(__cpp_lib_to_chars)
  if (point == end || digits == 0) return false;  // a large integer, or not a number
  double us = 0;
  const auto read = std::from_chars(text.data(), end, us);
  if (read.ec != std::errc() || read.ptr != end || !(std::fabs(us) < 4e15)) return false;
  const double trunc = std::trunc(us);
  ns = static_cast<int64_t>(trunc) * 1000 +
       static_cast<int64_t>(std::nearbyint((us - trunc) * 1000));
  return true;
#else
  return false;
#endif
}

}  // namespace trace_rows
FASTPROF_NAMESPACE_END
