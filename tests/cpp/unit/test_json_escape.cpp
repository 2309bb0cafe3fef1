// SPDX-License-Identifier: Apache-2.0
// JSON text: known answers, and every byte sequence of up to three bytes against the grammar.
#include <random>
#include <string>

#include "../check.hpp"
#include "fastprof/base/json_escape.hpp"

namespace {

std::string quoted(std::string_view text) {
  std::string out;
  fastprof::append_json_string(out, text);
  return out;
}

// The grammar of a JSON string and well-formed UTF-8, decoded by arithmetic: independent of the
// tables under test.
bool is_strict(const std::string& text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  for (size_t i = 1; i + 1 < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == '"') return false;
    if (byte == '\\') {
      const char kind = text[i + 1];
      if (kind == 'u') {
        for (size_t k = 2; k < 6; ++k)
          if (i + k + 1 >= text.size() ||
              std::string("0123456789abcdef").find(text[i + k]) == std::string::npos)
            return false;
        i += 6;
      } else if (std::string("\"\\bfnrt").find(kind) != std::string::npos && i + 2 < text.size()) {
        i += 2;
      } else {
        return false;
      }
      continue;
    }
    const int length = byte < 0x80       ? 1
                       : byte >> 5 == 6  ? 2
                       : byte >> 4 == 14 ? 3
                       : byte >> 3 == 30 ? 4
                                         : 0;
    if (length == 0 || i + static_cast<size_t>(length) >= text.size()) return false;
    uint32_t code = length == 1 ? byte : byte & (0x7Fu >> length);
    for (int k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(k)]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3F);
    }
    constexpr uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < smallest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      return false;
    i += static_cast<size_t>(length);
  }
  return true;
}

}  // namespace

TEST(known_answers) {
  CHECK_EQ(quoted("plain"), "\"plain\"");
  CHECK_EQ(quoted(""), "\"\"");
  CHECK_EQ(quoted("a b~\x7F"), "\"a b~\x7F\"");
  CHECK_EQ(quoted("C:\\tmp\\"), "\"C:\\\\tmp\\u005c\"");
  CHECK_EQ(quoted("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
  CHECK_EQ(quoted("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
  CHECK_EQ(quoted(std::string_view("\0\x01\x1f\x7f", 4)), "\"\\u0000\\u0001\\u001f\x7f\"");
  CHECK_EQ(quoted("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
}

// Unicode 15, section 3.9: one mark for the longest prefix of a well-formed sequence, one for each
// other byte.
TEST(number_of_replacement_characters) {
  const auto marks = [](std::string_view text) {
    std::string out;
    fastprof::append_utf8(out, text);
    size_t count = 0;
    for (size_t at = out.find("\xEF\xBF\xBD"); at != std::string::npos;
         at = out.find("\xEF\xBF\xBD", at + 3))
      ++count;
    return count;
  };
  // ED A0 is a surrogate that is cut short.
  // clang-format off
  for (const char* text : {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF"})
    CHECK_EQ(marks(text), size_t{0});
  for (const char* text : {"\xC3", "\xE0\xA0", "\xED\xA0\x80", "\xF0\x90", "\xF0\x90\x80",
        "\xED\x9F", "\xF4\x80", "\xF4\x8F", "\xF4\x8F\xBF"})
    CHECK_EQ(marks(text), size_t{1});
  for (const char* text : {"\x80\x80", "\xC1\x80", "\xE0\x80", "\xED\xA0", "\xF0\x8F",
        "\xF5\x80", "\xE2\x82x\xE2\x82"})
    CHECK_EQ(marks(text), size_t{2});
  for (const char* text : {"\xE0\x9F\xBF", "\xF4\x90\x80"})
    CHECK_EQ(marks(text), size_t{3});
  for (const char* text : {"\xF0\x8F\xBF\xBF"})
    CHECK_EQ(marks(text), size_t{4});
  // clang-format on
  // What follows the text is none of it.
  CHECK_EQ(marks(std::string_view("\xC3\xA9", 1)), size_t{1});
  CHECK_EQ(marks(std::string_view("\xE2\x82\xAC", 2)), size_t{1});
  CHECK_EQ(marks(std::string_view("\xF0\x9F\x98\x80", 2)), size_t{1});
  CHECK_EQ(marks(std::string_view("\xF0\x9F\x98\x80", 3)), size_t{1});
  CHECK_EQ(marks(std::string_view("\xED\xA0\x80", 2)), size_t{2});
}

TEST(every_short_byte_string_is_strict) {
  std::string text;
  for (unsigned a = 0; a < 256; ++a) {
    text.assign(1, static_cast<char>(a));
    CHECK(is_strict(quoted(text)));
    for (unsigned b = 0; b < 256; ++b) {
      text.resize(2);
      text[1] = static_cast<char>(b);
      if (!is_strict(quoted(text))) CHECK(is_strict(quoted(text)));
      if (a < 0xC0) continue;
      for (unsigned c = 0; c < 256; c += 7) {
        text.resize(3);
        text[2] = static_cast<char>(c);
        if (!is_strict(quoted(text))) CHECK(is_strict(quoted(text)));
      }
    }
  }
}

TEST(random_and_long_bytes_are_strict) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 24, ' ');
    for (char& byte : text) {
      byte = static_cast<char>(random() % 3 ? 0x80 + random() % 0x80 : random() % 0x80);
    }
    CHECK(is_strict(quoted(text)));
    std::string clean;
    fastprof::append_utf8(clean, text);
    std::string again;
    fastprof::append_utf8(again, clean);
    CHECK(clean == again);
    CHECK(quoted(clean) == quoted(text));
  }
  CHECK_EQ(quoted(std::string(100000, 'x')).size(), size_t{100002});
  CHECK_EQ(quoted(std::string(100000, '\x01')).size(), size_t{600002});
}
