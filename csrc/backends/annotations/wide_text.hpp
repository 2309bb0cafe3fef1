// SPDX-License-Identifier: Apache-2.0
// Converts wide characters (UTF-32 on Linux) to UTF-8.
#pragma once

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// Returns the text in UTF-8; "" for null. Values that are not code points become U+FFFD. May throw
// std::bad_alloc.
inline std::string utf8_of(const wchar_t* text) {
  static_assert(sizeof(wchar_t) == 4, "UTF-32");
  std::string out;
  if (text == nullptr) return out;
  for (; *text != L'\0'; ++text) {
    auto point = static_cast<uint32_t>(*text);
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) point = 0xFFFD;
    const auto tail = [&](unsigned shift) {
      out.push_back(static_cast<char>(0x80 | (point >> shift & 0x3F)));
    };
    if (point < 0x80) {
      out.push_back(static_cast<char>(point));
    } else if (point < 0x800) {
      out.push_back(static_cast<char>(0xC0 | point >> 6));
      tail(0);
    } else if (point < 0x10000) {
      out.push_back(static_cast<char>(0xE0 | point >> 12));
      tail(6);
      tail(0);
    } else {
      out.push_back(static_cast<char>(0xF0 | point >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }
  return out;
}

}  // namespace annotations
FASTPROF_NAMESPACE_END
