// SPDX-License-Identifier: Apache-2.0
// Shortens demangled C++ names for stacks: parameters, template arguments and return types of
// torch's functions fill a screen and rarely add information.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace function_name_detail {

// Whether an operator's name ends before `at`, so that the next '<', '>' or '(' belongs to it.
inline bool after_operator(const std::string& name, size_t at) {
  static const char word[] = "operator";
  const size_t length = sizeof word - 1;
  while (at > 0 && (name[at - 1] == '<' || name[at - 1] == '>' || name[at - 1] == '-' ||
                    name[at - 1] == '=' || name[at - 1] == '('))
    --at;
  if (at < length || name.compare(at - length, length, word) != 0) return false;
  if (at == length) return true;
  const char before = name[at - length - 1];
  return before == ':' || before == ' ';
}

// The index behind the bracket that closes the one at `open`; npos if none does. Arrows and
// operators inside are not brackets.
inline size_t behind_bracket(const std::string& name, size_t open) {
  size_t depth = 0;
  for (size_t i = open; i < name.size(); ++i) {
    const char c = name[i];
    if ((c == '<' || c == '>') &&
        ((i != open && after_operator(name, i)) || (c == '>' && i > 0 && name[i - 1] == '-')))
      continue;
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == '}' || c == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return std::string::npos;
}

// The index behind the qualifiers that follow a parameter list: "f() const &".
inline size_t behind_qualifiers(const std::string& name, size_t i) {
  for (const char* const word : {" const", " volatile", " &&", " &"}) {
    const size_t length = std::strlen(word);
    if (name.compare(i, length, word) == 0) i += length;
  }
  return i;
}

}  // namespace function_name_detail

// Returns a demangled name without parameters, return type, qualifiers and suffixes of clones, and
// with "<>" in place of template arguments: "ns::Class<>::method". Names of lambdas are kept
// ("f()::{lambda()#1}::operator()" becomes "f::{lambda()#1}::operator()"). A name that cannot be
// parsed is returned unchanged.
inline std::string short_function_name(const std::string& demangled) {
  using namespace function_name_detail;
  std::string name;
  for (size_t i = 0; i < demangled.size();) {
    const char c = demangled[i];
    if (c == '<' && !after_operator(demangled, i)) {
      const size_t behind = behind_bracket(demangled, i);
      if (behind == std::string::npos) return demangled;
      name += "<>";
      i = behind;
    } else if (c == '{' || c == '[') {
      const size_t behind = behind_bracket(demangled, i);
      if (behind == std::string::npos) return demangled;
      if (c == '{') name.append(demangled, i, behind - i);  // else "[clone .cold]", "[abi:cxx11]"
      i = behind;
    } else if (c == '(' && demangled.compare(i, 21, "(anonymous namespace)") == 0) {
      name += "(anonymous namespace)";
      i += 21;
    } else if (c == '(' && demangled.compare(i, 2, "()") == 0 && name.size() >= 8 &&
               name.compare(name.size() - 8, 8, "operator") == 0) {
      name += "()";
      i += 2;
    } else if (c == '(') {
      if (demangled.compare(i, 2, "(*") == 0) return demangled;  // returns a pointer to a function
      const size_t behind = behind_bracket(demangled, i);
      if (behind == std::string::npos) return demangled;
      i = behind_qualifiers(demangled, behind);
    } else {
      name += c;
      ++i;
    }
  }
  while (!name.empty() && name.back() == ' ') name.pop_back();
  // The return type of a template: what is before the last space outside of brackets, unless that
  // space belongs to the name ("operator bool", "(anonymous namespace)").
  size_t start = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '(' || name[i] == '{') {
      const size_t behind = behind_bracket(name, i);
      if (behind == std::string::npos) return demangled;
      i = behind - 1;
    } else if (name[i] == ' ') {
      if (i >= 8 && name.compare(i - 8, 8, "operator") == 0) break;
      if (!after_operator(name, i)) start = i + 1;
    }
  }
  return start < name.size() ? name.substr(start) : demangled;
}

FASTPROF_NAMESPACE_END
