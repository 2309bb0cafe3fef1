// SPDX-License-Identifier: Apache-2.0
// What tests ask of texts and of files of text.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>

namespace text_checks {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

inline std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace text_checks
