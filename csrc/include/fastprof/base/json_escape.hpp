// SPDX-License-Identifier: Apache-2.0
// JSON writing: strings, doubles and integers that every strict parser accepts, for any input bytes
// (RFC 8259).
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Length of the well-formed UTF-8 sequence at text[0], or 0 if it is malformed (Unicode 15, table
// 3-7). size >= 1.
inline size_t utf8_sequence_bytes(const unsigned char* text, size_t size) noexcept {
  const auto tail = [&](size_t i) { return i < size && (text[i] & 0xC0) == 0x80; };
  const unsigned char lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (!tail(1)) return 0;
  if (lead < 0xE0) return 2;
  const unsigned char second = text[1];
  if (lead < 0xF0) {
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
    return tail(2) ? 3 : 0;
  }
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
  return tail(2) && tail(3) ? 4 : 0;
}

// Number of bytes at text[0] that one replacement character stands for: three for an encoded
// surrogate, else the longest prefix of a well-formed sequence (Unicode 15, section 3.9). size >=
// 1.
inline size_t utf8_invalid_bytes(const unsigned char* text, size_t size) noexcept {
  const auto tail = [&](size_t i) { return i < size && (text[i] & 0xC0) == 0x80; };
  const unsigned char lead = text[0];
  if (lead < 0xC2 || lead > 0xF4 || !tail(1)) return 1;
  if (lead == 0xED && text[1] > 0x9F) return tail(2) ? 3 : 1;
  if (lead == 0xE0 && text[1] < 0xA0) return 1;
  if (lead == 0xF0 && text[1] < 0x90) return 1;
  if (lead == 0xF4 && text[1] > 0x8F) return 1;
  return lead >= 0xF0 && tail(2) ? 3 : 2;
}

// Appends `text` as valid UTF-8: malformed bytes, lone surrogates included, become U+FFFD.
// Surrogates are not written as \ud800: JSON's grammar allows that, but several readers then refuse
// the whole file.
inline void append_utf8(std::string& out, std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t i = 0, copied = 0;
  while (i < text.size()) {
    if (const size_t good = utf8_sequence_bytes(bytes + i, text.size() - i)) {
      i += good;
      continue;
    }
    out.append(text.data() + copied, i - copied);
    out.append("\xEF\xBF\xBD");
    i += utf8_invalid_bytes(bytes + i, text.size() - i);
    copied = i;
  }
  out.append(text.data() + copied, text.size() - copied);
}

// Appends the contents of a JSON string, without quotes. Malformed UTF-8 as in append_utf8.
inline void append_json_escaped(std::string& out, std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t i = 0, copied = 0;
  const auto flush = [&] { out.append(text.data() + copied, i - copied); };
  while (i < text.size()) {
    const unsigned char byte = bytes[i];
    if (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\') {
      ++i;
      continue;
    }
    if (byte >= 0x80) {
      if (const size_t good = utf8_sequence_bytes(bytes + i, text.size() - i)) {
        i += good;
        continue;
      }
      flush();
      out.append("\xEF\xBF\xBD");
      i += utf8_invalid_bytes(bytes + i, text.size() - i);
      copied = i;
      continue;
    }
    flush();
    switch (byte) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        // A final backslash is written as \u005c: Perfetto's reader (version 52) takes the
        // characters \\" for an escaped quote wherever they stand, and then refuses the whole file.
        out.append(i + 1 == text.size() ? "\\u005c" : "\\\\");
        break;
      case '\b':
        out.append("\\b");
        break;
      case '\f':
        out.append("\\f");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      default: {
        constexpr char hex[] = "0123456789abcdef";
        const char escape[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
        out.append(escape, 6);
      }
    }
    copied = ++i;
  }
  flush();
}

// Appends `text` as a JSON string with its quotes.
inline void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  append_json_escaped(out, text);
  out.push_back('"');
}

// Appends a number with up to 17 significant digits and a decimal point, whatever the locale is.
inline void append_digits(std::string& out, double value) {
  char buffer[40];
  const int length = std::snprintf(buffer, sizeof buffer, "%.17g", value);
  for (int i = 0; i < length; ++i) out.push_back(buffer[i] == ',' ? '.' : buffer[i]);
}

// Appends a JSON number that reads back as the same double and not as an integer (5 becomes 5.0).
// NaN and the infinities, which JSON cannot represent as numbers, become the strings "NaN",
// "Infinity" and "-Infinity".
inline void append_json_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out.append("\"NaN\"");
    return;
  }
  if (std::isinf(value)) {
    out.append(value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    return;
  }
#if defined(__cpp_lib_to_chars)
  char buffer[40];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof buffer, value);
  const std::string_view text(buffer, static_cast<size_t>(result.ptr - buffer));
  out.append(text);
#else
  const size_t before = out.size();
  append_digits(out, value);
  const std::string_view text = std::string_view(out).substr(before);
#endif
  if (text.find_first_of(".e") == std::string_view::npos) out.append(".0");
}

// Appends a decimal integer.
template <class Int>
inline void append_json_int(std::string& out, Int value) {
  char buffer[24];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, static_cast<size_t>(result.ptr - buffer));
}

FASTPROF_NAMESPACE_END
