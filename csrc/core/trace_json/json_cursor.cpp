// SPDX-License-Identifier: Apache-2.0
// Validation of JSON values: see json_cursor.hpp.
#include "core/trace_json/json_cursor.hpp"

#include <cstring>

FASTPROF_NAMESPACE_BEGIN
namespace trace_json {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101u;
constexpr uint64_t kHighs = 0x8080808080808080u;

// Non-zero if a byte of the word ends a run of plain characters: quote, backslash, control
// character or non-ASCII. (Bit Twiddling Hacks, "Determine if a word has a byte less than n".)
uint64_t special_bytes(uint64_t word) noexcept {
  const uint64_t quote = word ^ (kOnes * '"');
  const uint64_t slash = word ^ (kOnes * '\\');
  return (((word - kOnes * 0x20) & ~word) | ((quote - kOnes) & ~quote) |
          ((slash - kOnes) & ~slash) | word) &
         kHighs;
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

Read Cursor::skip_string(bool& escapes) noexcept {
  ++at;
  for (;;) {
    while (end - at >= 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      const uint64_t found = special_bytes(word);
      if (found != 0) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        at += __builtin_ctzll(found) >> 3;  // a borrow can mark wrong bytes only above the lowest
#endif
        break;
      }
      at += 8;
    }
    if (at == end) return Read::more;
    const auto byte = static_cast<unsigned char>(*at);
    if (byte == '"') {
      ++at;
      return Read::done;
    }
    Read read = Read::done;
    if (byte == '\\') {
      escapes = true;
      read = skip_escape();
    } else if (byte < 0x20) {
      read = Read::refused;
    } else if (byte < 0x80) {
      ++at;
    } else {
      read = skip_utf8();
    }
    if (read != Read::done) return read;
  }
}

Read Cursor::skip_escape() noexcept {
  if (end - at < 2) return Read::more;
  const char kind = at[1];
  if (kind != 'u') {
    if (std::strchr("\"\\/bfnrt", kind) == nullptr || kind == '\0') return Read::refused;
    at += 2;
    return Read::done;
  }
  if (end - at < 6) return Read::more;
  for (int i = 2; i < 6; ++i)
    if (!is_hex(at[i])) return Read::refused;
  at += 6;
  return Read::done;
}

// Table 3-7 of the Unicode standard, "Well-Formed UTF-8 Byte Sequences".
Read Cursor::skip_utf8() noexcept {
  const auto byte = [this](int i) { return static_cast<unsigned char>(at[i]); };
  const unsigned first = byte(0);
  const int size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4) return Read::refused;
  if (end - at < size) return Read::more;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  if (byte(1) < low || byte(1) > high) return Read::refused;
  for (int i = 2; i < size; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return Read::refused;
  at += size;
  return Read::done;
}

Read Cursor::skip_word(std::string_view word) noexcept {
  const size_t left = static_cast<size_t>(end - at);
  const size_t size = left < word.size() ? left : word.size();
  if (std::memcmp(at, word.data(), size) != 0) return Read::refused;
  at += size;
  return size == word.size() ? Read::done : Read::more;
}

Read Cursor::skip_number() noexcept {
  const char* const begin = at;
  if (*at == '-') ++at;
  if (at == end) return Read::more;
  if (*at == 'I') return skip_word("Infinity");
  if (!is_digit(*at)) return Read::refused;
  if (*at == '0') {
    ++at;
  } else {
    while (at != end && is_digit(*at)) ++at;
  }
  if (at != end && *at == '.') {
    const char* const point = ++at;
    while (at != end && is_digit(*at)) ++at;
    if (at != end && at == point) return Read::refused;
  }
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    if (at != end && (*at == '+' || *at == '-')) ++at;
    const char* const exponent = at;
    while (at != end && is_digit(*at)) ++at;
    if (at != end && at == exponent) return Read::refused;
  }
  if (static_cast<size_t>(at - begin) > kMaxNumberChars) return Read::refused;
  return at == end ? Read::more : Read::done;
}

Read Cursor::skip_array(int depth) noexcept {
  if (depth == 0) return Read::refused;
  ++at;
  if (!skip_space()) return Read::more;
  if (*at == ']') {
    ++at;
    return Read::done;
  }
  for (;;) {
    const Read read = skip_value(depth - 1);
    if (read != Read::done) return read;
    if (!skip_space()) return Read::more;
    const char c = *at++;
    if (c == ']') return Read::done;
    if (c != ',') return Read::refused;
    if (!skip_space()) return Read::more;
  }
}

Read Cursor::skip_object(int depth) noexcept {
  if (depth == 0) return Read::refused;
  return read_object(*this, [&](std::string_view, bool) { return skip_value(depth - 1); });
}

Read Cursor::skip_value(int depth) noexcept {
  bool escapes = false;
  switch (*at) {
    case '"':
      return skip_string(escapes);
    case '{':
      return skip_object(depth);
    case '[':
      return skip_array(depth);
    case 't':
      return skip_word("true");
    case 'f':
      return skip_word("false");
    case 'n':
      return skip_word("null");
    case 'N':
      return skip_word("NaN");
    case 'I':
      return skip_word("Infinity");
    default:
      return skip_number();
  }
}

}  // namespace trace_json
FASTPROF_NAMESPACE_END
