// SPDX-License-Identifier: Apache-2.0
// Python and native frames of one stack joined, and C++ names shortened, on cases written by hand.
#include <string>
#include <vector>

#include "check.hpp"
#include "fastprof/payload/native_stack/function_name.hpp"
#include "fastprof/payload/native_stack/join_stacks.hpp"

using namespace fastprof;

// Native frames, innermost first: 'E' is an evaluation loop, 'I' of the interpreter, '.' hidden,
// '/' of the C library, every other letter is shown. Python frames, innermost first: an upper-case
// letter is the entry of its loop. Returns the joined stack, with Python frames in brackets.
static std::string joined(const std::string& natives, const std::string& python, bool cut = false) {
  const std::vector<uint64_t> addresses(natives.begin(), natives.end());
  std::string text;
  join_stacks(
      addresses.data(), static_cast<uint32_t>(addresses.size()),
      static_cast<uint32_t>(python.size()), cut,
      [](uint64_t address) {
        return address == 'E'   ? NativeFrame::evaluation
               : address == 'I' ? NativeFrame::interpreter
               : address == '.' ? NativeFrame::hidden
               : address == '/' ? NativeFrame::system
                                : NativeFrame::shown;
      },
      [&](uint32_t i) { return python[i] >= 'A' && python[i] <= 'Z'; },
      [&](uint64_t address) { text += static_cast<char>(address); },
      [&](uint32_t i) { text += std::string("[") + python[i] + "]"; });
  return text;
}

TEST(what_starts_a_thread_is_left_out) {
  CHECK_EQ(joined("ab//", ""), "ab");
  CHECK_EQ(joined("a/b./", ""), "a/b");
  CHECK_EQ(joined("E.m//", "A"), "[A]m");  // a program that embeds Python
  CHECK_EQ(joined("EIm//", "A"), "[A]m");
  CHECK_EQ(joined("//", ""), "");
}

TEST(a_stack_that_was_cut_is_joined_from_its_inner_end) {
  CHECK_EQ(joined("aEb", "AcdE", true), "a[A]b[c][d][E]");
  CHECK_EQ(joined("aEbEcE", "AB", true), "a[A]b[B]c");
}

TEST(a_loop_that_was_not_recognised_loses_what_lies_between_python_frames) {
  CHECK_EQ(joined("aEbcEd", "xYzWV"), "a[x][Y][z][W][V]d");
  CHECK_EQ(joined("aEbEc", "xyz"), "a[x][y][z]c");  // an interpreter that does not tell entries
  CHECK_EQ(joined("aEbEc", "XY"), "a[X]b[Y]c");
  CHECK_EQ(joined("aIbIcEId", "xyz"), "a[x][y][z]d");  // loops are not where the frames are
  CHECK_EQ(joined("aIbIc", "xyz"), "a[x][y][z]c");     // no loop recognised, no entry
  CHECK_EQ(joined("aIbIcEId", "xyz", true), "a[x][y][z]d");
}

TEST(names_are_shortened) {
  const struct {
    const char* name;
    const char* expected;
  } cases[] = {
      {"main", "main"},
      {"", ""},
      {"at::_ops::conv2d::call(at::Tensor const&, std::optional<at::Tensor> const&)",
       "at::_ops::conv2d::call"},
      {"at::Tensor c10::Dispatcher::call<at::Tensor, at::Tensor const&>("
       "c10::Handle<at::Tensor (at::Tensor const&)> const&, long) const",
       "c10::Dispatcher::call<>"},
      {"a::(anonymous namespace)::convolution(c10::Keys)", "a::(anonymous namespace)::convolution"},
      {"a::wrap_<a::F<a::T (a::T const&), &a::(anonymous namespace)::g>, a::list<a::T> "
       ">::call(long)",
       "a::wrap_<>::call"},
      {"f(int)::{lambda(int)#1}::operator()(int) const", "f::{lambda(int)#1}::operator()"},
      {"operator<<(std::ostream&, int)", "operator<<"},
      {"bool ns::operator< <int>(ns::A<int> const&)", "ns::operator< <>"},
      {"ns::A::operator->() const", "ns::A::operator->"},
      {"ns::A::operator bool() const", "ns::A::operator bool"},
      {"operator new(unsigned long)", "operator new"},
      {"at::convolution_symint(int) [clone .isra.0]", "at::convolution_symint"},
      {"std::string::append[abi:cxx11](char)", "std::string::append"},
      {"std::function<void (int)>::operator()(int) const", "std::function<>::operator()"},
      {"decltype (f({parm#1})) ns::g<int>(int)", "ns::g<>"},
      // What cannot be read stays.
      {"void (*ns::get(int))(double)", "void (*ns::get(int))(double)"},
      {"bad<name(", "bad<name("},
      {"a::B::run() const::{lambda(int)#1}::operator()(int) const",
       "a::B::run::{lambda(int)#1}::operator()"},
      {"a::B::get() const &", "a::B::get"},
      {"a::B::get() volatile &&", "a::B::get"},
      {"a::B::get() &&::{lambda()#1}::operator()() const", "a::B::get::{lambda()#1}::operator()"},
      {"bad(name", "bad(name"},
      {"bad[name", "bad[name"},
      {"bad{name", "bad{name"},
      {"(int)", "(int)"},
      {"f(int) ", "f"},
      {"int f<int>(int)", "f<>"},
      {"f<int [3]>(int (&) [3])", "f<>"},
      {"f<decltype (a->b)>(int)", "f<>"},
      {"f(int) const volatile &&", "f"},
      {"f(int) const volatile &", "f"},
      {"(anonymous namespace)::f((anonymous namespace)::A)", "(anonymous namespace)::f"},
      {"f::{lambda((anonymous namespace)::A)#1}::g(int)",
       "f::{lambda((anonymous namespace)::A)#1}::g"},
      {"int a::{lambda(int, char)#1}::operator()<int>(int) const",
       "a::{lambda(int, char)#1}::operator()<>"},
      {"A f::{lambda(int)#1}::b g<int>()", "g<>"},
      // Operators, and names that end like them.
      {"operator()(int)", "operator()"},
      {"void* operator new(unsigned long)", "operator new"},
      {"A::operator B<int>() const", "A::operator B<>"},
      {"perator()(int)", "perator"},
      {"my_operator<int>(int)", "my_operator<>"},
      {"A operator<(A, B)", "operator<"},
      {"a::operator>(A, B)", "a::operator>"},
      {"a::operator<=(A, B)", "a::operator<="},
      {"a::operator<=>(A, B)", "a::operator<=>"},
      {"a::operator>>=(A, B)", "a::operator>>="},
      {"a::operator->*(A, B)", "a::operator->*"},
      {"f<&a::operator< >(int)", "f<>"},
      {"f<&a::operator> >(int)", "f<>"},
      {"f<&a::operator-> >(int)", "f<>"},
      {"f<&my_operator<int> >(int)", "f<>"},
      {"{", "{"},
  };
  for (const auto& c : cases) CHECK_EQ(short_function_name(c.name), c.expected);
}

TEST(any_text_can_be_shortened) {
  uint64_t random = 1;
  const std::string letters = "ab<>(){}[] :-=operator(anonymous namespace)";
  for (int round = 0; round < 100000; ++round) {
    std::string name;
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t length = random >> 59;
    for (size_t i = 0; i < length; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      name += letters[(random >> 33) % letters.size()];
    }
    const std::string shorter = short_function_name(name);
    CHECK(shorter.size() <= name.size() + 2);
    CHECK(name.empty() || !shorter.empty());
  }
}
