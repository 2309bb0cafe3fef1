// SPDX-License-Identifier: Apache-2.0
// What tests ask of texts, of files of text, of messages and of what is written to stderr.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
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

// The message of the E that `run` throws; "" if it throws nothing.
template <class E, class F>
std::string message_of(F run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

// What `run` writes to stderr.
template <class F>
std::string stderr_of(F run) {
  std::fflush(stderr);
  std::FILE* const file = std::tmpfile();
  const int saved = ::dup(2);
  ::dup2(::fileno(file), 2);
  run();
  std::fflush(stderr);
  ::dup2(saved, 2);
  ::close(saved);
  std::string text(65536, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace text_checks
