// SPDX-License-Identifier: Apache-2.0
// The test frame: TEST(name) { CHECK(...); CHECK_EQ(a, b); CHECK_THROWS(E, expr); } in a plain
// executable. Include it in one source file; main is here. Exit status 1 when a check failed.
#pragma once

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

namespace check {

struct Case {
  const char* name;
  void (*run)();
};
inline std::vector<Case>& cases() {
  static std::vector<Case> list;
  return list;
}
inline int& failures() {
  static int count = 0;
  return count;
}
struct Register {
  Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};
inline void fail(const char* file, int line, const std::string& what) {
  ++failures();
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}
template <class A, class B>
inline std::string describe(const char* text, const A& a, const B& b) {
  std::ostringstream out;
  out << text << ": " << a << " against " << b;
  return out.str();
}

}  // namespace check

#define TEST(name)                                                  \
  static void test_##name();                                        \
  static const check::Register register_##name(#name, test_##name); \
  static void test_##name()
#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) check::fail(__FILE__, __LINE__, "not true: " #condition); \
  } while (0)
#define CHECK_EQ(a, b)                                                                  \
  do {                                                                                  \
    const auto& check_a = (a);                                                          \
    const auto& check_b = (b);                                                          \
    if (!(check_a == check_b))                                                          \
      check::fail(__FILE__, __LINE__, check::describe(#a " == " #b, check_a, check_b)); \
  } while (0)
#if FASTPROF_EXCEPTIONS
#define CHECK_THROWS(E, expression)                                               \
  do {                                                                            \
    bool check_threw = false;                                                     \
    try {                                                                         \
      (void)(expression);                                                         \
    } catch (const E&) {                                                          \
      check_threw = true;                                                         \
    }                                                                             \
    if (!check_threw) check::fail(__FILE__, __LINE__, "no " #E ": " #expression); \
  } while (0)
#else
#define CHECK_THROWS(E, expression) \
  do {                              \
  } while (0)
#endif

int main() {
  int passed = 0, failed = 0;
  for (const check::Case& test : check::cases()) {
    const int before = check::failures();
    test.run();
    if (check::failures() == before) {
      ++passed;
    } else {
      ++failed;
      std::fprintf(stderr, "FAILED %s\n", test.name);
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
