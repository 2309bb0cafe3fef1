// SPDX-License-Identifier: Apache-2.0
// Cursor: validates and skips JSON values in a buffer without decoding them. Accepts a subset of
// what Python's json module accepts, including NaN and infinities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_json {

// Result of reading. done; more: the buffer ends within the value; refused: the text is invalid, or
// unusual enough (deep nesting, a very long number) to be left to another reader.
enum class Read : uint8_t { done, more, refused };

// A cursor over [at, end). Its functions require `at` to be at the first byte of what they skip.
struct Cursor {
  const char* at;
  const char* end;

  // Skips white space; returns whether a byte is left.
  bool skip_space() noexcept {
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) ++at;
    return at != end;
  }

  // Skips a string. Sets `escapes` if it contains a backslash.
  Read skip_string(bool& escapes) noexcept;
  // Skips a value of any type. depth: number of arrays and objects that may still be opened.
  Read skip_value(int depth) noexcept;
  // Skips a character that is not ASCII.
  Read skip_utf8() noexcept;

 private:
  Read skip_escape() noexcept;
  Read skip_number() noexcept;
  Read skip_word(std::string_view word) noexcept;
  Read skip_array(int depth) noexcept;
  Read skip_object(int depth) noexcept;
};

constexpr int kMaxDepth = 200;           // Python's own limit is about 1000
constexpr size_t kMaxNumberChars = 300;  // Python refuses integers of more than 4300 digits

// Reads an object, whose brace is at the cursor. For each member, read_value(key, escapes) is
// called with the cursor at the value, which it must read; key: without quotes; escapes: whether
// the key contains escapes. Every reader of an object goes through this function.
template <class ReadValue>
Read read_object(Cursor& cursor, const ReadValue& read_value) {
  ++cursor.at;
  if (!cursor.skip_space()) return Read::more;
  if (*cursor.at == '}') {
    ++cursor.at;
    return Read::done;
  }
  for (;;) {
    bool escapes = false;
    if (*cursor.at != '"') return Read::refused;
    const char* const begin = cursor.at + 1;
    Read read = cursor.skip_string(escapes);
    if (read != Read::done) return read;
    const std::string_view key(begin, static_cast<size_t>(cursor.at - 1 - begin));
    if (!cursor.skip_space()) return Read::more;
    if (*cursor.at++ != ':') return Read::refused;
    if (!cursor.skip_space()) return Read::more;
    read = read_value(key, escapes);
    if (read != Read::done) return read;
    if (!cursor.skip_space()) return Read::more;
    const char c = *cursor.at++;
    if (c == '}') return Read::done;
    if (c != ',') return Read::refused;
    if (!cursor.skip_space()) return Read::more;
  }
}

// Reads an object like read_object() and calls on_member(key, escapes, value) for each member, with
// the text of its value.
template <class OnMember>
Read read_members(Cursor& cursor, const OnMember& on_member) {
  return read_object(cursor, [&](std::string_view key, bool escapes) {
    const char* const begin = cursor.at;
    const Read read = cursor.skip_value(kMaxDepth);
    if (read == Read::done)
      on_member(key, escapes, std::string_view(begin, static_cast<size_t>(cursor.at - begin)));
    return read;
  });
}

}  // namespace trace_json
FASTPROF_NAMESPACE_END
