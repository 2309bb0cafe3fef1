// SPDX-License-Identifier: Apache-2.0
// The test framework itself: a failing check is counted, and equality is by value.
#define CHECK_NO_MAIN
#include <cstdint>
#include <stdexcept>

#include "check.hpp"

TEST(a_failing_check_is_counted) {
  const int before = check::failures().load();
  CHECK(1 + 1 == 3);
  CHECK_EQ(1, 2);
  CHECK_THROWS(std::runtime_error, 0);
  const int after = check::failures().load();
  check::failures().store(before);  // these checks fail on purpose
  CHECK_EQ(after - before, 3);
}

TEST(equality_is_by_value) {
  CHECK(!check::equal(-1, 0xFFFFFFFFu));
  CHECK(!check::equal(UINT64_MAX, int64_t{-1}));
  CHECK_EQ(7u, 7);
}

TEST(always_fails) {
  CHECK(false);
}

TEST(always_throws) {
  throw std::runtime_error("meant");
}

int main() {
  char program[] = "test_check", counted[] = "counted", by_value[] = "by_value";
  char fails[] = "always_fails", throws[] = "always_throws", none[] = "no_such_test";
  char* good[] = {program, counted, by_value};
  char* bad[] = {program, fails};
  char* worse[] = {program, throws};
  char* nothing[] = {program, none};
  std::fprintf(stderr, "-- the failures printed below are meant\n");
  const bool failures_are_seen = check::run_all(2, bad) == 1 && check::run_all(2, worse) == 1;
  const bool empty_selection_fails = check::run_all(2, nothing) == 1;
  const int result = check::run_all(3, good);
  return failures_are_seen && empty_selection_fails ? result : 1;
}
