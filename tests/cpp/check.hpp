// SPDX-License-Identifier: Apache-2.0
// The whole test framework: TEST(name) {...}, CHECK(condition), CHECK_EQ(a, b), CHECK_THROWS(E,
// expression), SKIP(why). A test file is an executable by itself, or shares one with others and is
// reached by a link of its name (CMakeLists.txt); the last line is "N passed, M
// failed", the exit status 1 when M > 0. Arguments select the tests whose name contains one of
// them. Define CHECK_NO_MAIN before including to bring your own main, which then calls
// check::run_all(argc, argv). Checks may run on any thread.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace check {

struct Test {
  const char* name;
  const char* file;
  void (*run)();
  Test* next;
};

inline Test*& first_test() {
  static Test* first = nullptr;
  return first;
}

struct Registration {
  explicit Registration(Test* test) {  // appended: tests run in the order of the file
    Test** place = &first_test();
    while (*place != nullptr) place = &(*place)->next;
    *place = test;
  }
};

inline std::atomic<int>& failures() {
  static std::atomic<int> count{0};
  return count;
}
inline std::atomic<bool>& skipped() {
  static std::atomic<bool> flag{false};
  return flag;
}

inline void fail(const char* file, int line, const std::string& what) {
  failures().fetch_add(1);
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

template <class T, class = void>
struct is_printable : std::false_type {};
template <class T>
struct is_printable<
    T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<const T&>())>>
    : std::true_type {};

template <class T>
std::string show(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (sizeof(T) == 1 && std::is_integral_v<T>) {
    out << static_cast<int>(value);
  } else if constexpr (is_printable<T>::value) {
    out << value;
  } else {
    out << "(" << sizeof(T) << " bytes)";
  }
  return out.str();
}

// Equality by value: a signed and an unsigned integer are equal only if both mean the same number.
template <class A, class B>
bool equal(const A& a, const B& b) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    if constexpr (std::is_signed_v<A> && !std::is_signed_v<B>) {
      return a >= 0 && static_cast<std::make_unsigned_t<A>>(a) == b;
    } else if constexpr (!std::is_signed_v<A> && std::is_signed_v<B>) {
      return b >= 0 && a == static_cast<std::make_unsigned_t<B>>(b);
    } else {
      return a == b;
    }
  } else {
    return a == b;
  }
}

template <class A, class B>
void check_eq(const A& a, const B& b, const char* text, const char* file, int line) {
  if (!equal(a, b))
    fail(file, line, std::string("CHECK_EQ(") + text + "): " + show(a) + " != " + show(b));
}

// Name of the file a path leads to, without its ending.
inline std::string stem(const char* path) {
  const char* slash = std::strrchr(path, '/');
  const std::string name = slash == nullptr ? path : slash + 1;
  return name.substr(0, name.find('.'));
}

// The test file that the program is called by; empty: by none, and the tests of all are run.
inline std::string file_called_by(const char* program) {
  const std::string called = stem(program);
  for (const Test* test = first_test(); test != nullptr; test = test->next)
    if (stem(test->file) == called) return called;
  return {};
}

inline bool selected(const Test& test, const std::string& file, int argc, char** argv) {
  if (!file.empty() && stem(test.file) != file) return false;
  if (argc < 2) return true;
  for (int i = 1; i < argc; ++i)
    if (std::strstr(test.name, argv[i]) != nullptr) return true;
  return false;
}

inline int run_all(int argc, char** argv) {
  const std::string file = argc > 0 ? file_called_by(argv[0]) : std::string();
  int passed = 0, failed = 0, skips = 0;
  for (Test* test = first_test(); test != nullptr; test = test->next) {
    if (!selected(*test, file, argc, argv)) continue;
    const int before = failures().load();
    skipped().store(false);
    try {
      test->run();
    } catch (const std::exception& error) {
      fail(test->name, 0, std::string("unexpected exception: ") + error.what());
    } catch (...) {
      fail(test->name, 0, "unexpected exception of unknown type");
    }
    if (failures().load() != before) {
      ++failed;
      std::fprintf(stderr, "FAILED %s\n", test->name);
    } else if (skipped().load()) {
      ++skips;
    } else {
      ++passed;
    }
  }
  if (passed + failed + skips == 0) {
    std::fprintf(stderr, "no test matches\n");
    failed = 1;
  }
  if (skips > 0) std::printf("%d skipped\n", skips);
  std::printf("%d passed, %d failed\n", passed, failed);
  std::fflush(stdout);
  return failed > 0 ? 1 : 0;
}

}  // namespace check

#define TEST(test_name)                                                                     \
  static void test_##test_name();                                                           \
  static ::check::Test entry_##test_name{#test_name, __FILE__, &test_##test_name, nullptr}; \
  static const ::check::Registration registration_##test_name{&entry_##test_name};          \
  static void test_##test_name()

#define CHECK(...)                                                                    \
  do {                                                                                \
    if (!(__VA_ARGS__)) ::check::fail(__FILE__, __LINE__, "CHECK(" #__VA_ARGS__ ")"); \
  } while (false)

#define CHECK_EQ(a, b) ::check::check_eq((a), (b), #a ", " #b, __FILE__, __LINE__)

// Leaves the test, which then counts as skipped, with the reason.
#define SKIP(why)                                                                     \
  do {                                                                                \
    ::check::skipped().store(true);                                                   \
    std::printf("SKIPPED %s:%d: %s\n", __FILE__, __LINE__, std::string(why).c_str()); \
    return;                                                                           \
  } while (false)

#define CHECK_THROWS(E, ...)                                                                   \
  do {                                                                                         \
    bool thrown_ = false;                                                                      \
    try {                                                                                      \
      static_cast<void>(__VA_ARGS__);                                                          \
    } catch (const E&) {                                                                       \
      thrown_ = true;                                                                          \
    }                                                                                          \
    if (!thrown_) ::check::fail(__FILE__, __LINE__, "CHECK_THROWS(" #E ", " #__VA_ARGS__ ")"); \
  } while (false)

#if !defined(CHECK_NO_MAIN)
int main(int argc, char** argv) {
  return ::check::run_all(argc, argv);
}
#endif
