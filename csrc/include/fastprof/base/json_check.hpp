// SPDX-License-Identifier: Apache-2.0
// JSON validation (RFC 8259): whether a text from elsewhere is exactly one JSON value, so that it
// can be inserted into our files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_escape.hpp"

FASTPROF_NAMESPACE_BEGIN

// A recogniser: it builds no tree. Functions below consume what they are named after and return
// whether it was there. Nesting is limited, so that untrusted text cannot exhaust the
// stack.
class JsonCheck {
 public:
  static constexpr int kMaxDepth = 200;

  explicit JsonCheck(std::string_view text) noexcept
      : at_(reinterpret_cast<const unsigned char*>(text.data())), end_(at_ + text.size()) {}

  // Whether the text is exactly one value, with optional white space around it.
  bool whole() noexcept {
    blanks();
    if (!value(0)) return false;
    blanks();
    return at_ == end_;
  }

 private:
  bool done() const noexcept { return at_ == end_; }
  bool take(char c) noexcept {
    if (done() || *at_ != static_cast<unsigned char>(c)) return false;
    ++at_;
    return true;
  }
  void blanks() noexcept {
    while (!done() && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }
  bool word(std::string_view text) noexcept {
    for (const char c : text)
      if (!take(c)) return false;
    return true;
  }
  bool digits() noexcept {
    const unsigned char* const first = at_;
    while (!done() && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != first;
  }
  bool number() noexcept {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }
  bool hex4() noexcept {
    for (int i = 0; i < 4; ++i, ++at_) {
      if (done()) return false;
      const unsigned char c = *at_;
      if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
        return false;
    }
    return true;
  }
  bool string() noexcept {
    if (!take('"')) return false;
    while (!done()) {
      const unsigned char c = *at_;
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c < 0x20) return false;
      if (c == '\\') {
        ++at_;
        if (take('u')) {
          if (!hex4()) return false;
          continue;
        }
        if (done() ||
            std::string_view("\"\\/bfnrt").find(static_cast<char>(*at_)) == std::string_view::npos)
          return false;
        ++at_;
        continue;
      }
      const size_t size = utf8_sequence_bytes(at_, static_cast<size_t>(end_ - at_));
      if (size == 0) return false;
      at_ += size;
    }
    return false;
  }
  bool value(int depth) noexcept {
    if (done() || depth > kMaxDepth) return false;
    switch (*at_) {
      case '{':
        return members(depth, '}', true);
      case '[':
        return members(depth, ']', false);
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }
  bool members(int depth, char close, bool keyed) noexcept {
    ++at_;
    blanks();
    if (take(close)) return true;
    for (;;) {
      blanks();
      if (keyed) {
        if (!string()) return false;
        blanks();
        if (!take(':')) return false;
        blanks();
      }
      if (!value(depth + 1)) return false;
      blanks();
      if (take(close)) return true;
      if (!take(',')) return false;
    }
  }

  const unsigned char* at_;
  const unsigned char* end_;
};

// Whether `text` is exactly one valid JSON value, with optional white space around it.
inline bool is_json_value(std::string_view text) noexcept {
  return JsonCheck(text).whole();
}

// The members of a JSON object without its braces (empty for an empty object); nullopt if `text` is
// not a JSON object.
inline std::optional<std::string_view> json_object_members(std::string_view text) noexcept {
  const size_t open = text.find_first_not_of(" \t\r\n");
  if (open == std::string_view::npos || text[open] != '{' || !is_json_value(text)) return {};
  const std::string_view inside =
      text.substr(open + 1, text.find_last_not_of(" \t\r\n") - open - 1);
  if (inside.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::string_view();
  return inside;
}

FASTPROF_NAMESPACE_END
