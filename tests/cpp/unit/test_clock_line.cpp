// SPDX-License-Identifier: Apache-2.0
// ClockLine: stamps of a device's clock become ticks of the recorder, also at the limits.
#include <cstdint>

#include "fastprof/session/clock_line.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

TEST(without_readings_stamps_are_ticks) {
  const fp::ClockLines lines;
  for (const uint64_t stamp : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) {
    CHECK_EQ(lines.work.ticks_of(stamp), stamp);
    CHECK_EQ(lines.calls.ticks_of(stamp), stamp);
  }
  const fp::ClockReading reading;
  CHECK(reading.theirs == 0 && reading.ticks == 0);
}

TEST(the_line_goes_through_both_readings) {
  const fp::ClockLine line({1000, 50000}, {2000, 53000}, 99, 1000);
  CHECK_EQ(line.ticks_of(1000), 50000);
  CHECK_EQ(line.ticks_of(2000), 53000);
  CHECK_EQ(line.ticks_of(1500), 51500);
  CHECK_EQ(line.ticks_of(4000), 59000);
  CHECK_EQ(line.ticks_of(999), 49997);
}

TEST(readings_that_say_nothing_leave_the_given_slope) {
  const auto ticks_of_next = [](fp::ClockReading end, uint64_t least) {
    return fp::ClockLine({1000, 50000}, end, 7, least).ticks_of(1001);
  };
  CHECK_EQ(ticks_of_next({2000, 53000}, 1000), 50003);
  CHECK_EQ(ticks_of_next({2000, 53000}, 1001), 50007);  // too close
  CHECK_EQ(ticks_of_next({1000, 53000}, 0), 50007);     // their clock stood still
  CHECK_EQ(ticks_of_next({999, 53000}, 0), 50007);      // or went back
  CHECK_EQ(ticks_of_next({2000, 50000}, 0), 50007);     // as ours did
  CHECK_EQ(ticks_of_next({2000, 49999}, 0), 50007);
  CHECK_EQ(ticks_of_next({1001, 50001}, 1), 50001);
}

TEST(a_clock_of_another_rate_needs_a_millisecond) {
  // 1000 ticks per second against 2 ticks per ns: 2,000,000 ticks for one of theirs.
  const auto between = [](uint64_t end) {
    return fp::ClockLine::between({10, 0}, {end, 5000000}, 2.0, 1e6);
  };
  CHECK_EQ(between(1009).ticks_of(11), 2000);
  CHECK_EQ(between(1010).ticks_of(11), 5000);
  CHECK_EQ(fp::ClockLine::between({10, 0}, {10, 0}, 2.0).ticks_of(11), 2);  // of ns
}

TEST(stamps_out_of_range_are_no_ticks) {
  const fp::ClockLine line({1000, 500}, {1000, 500}, 1.0, 1);
  CHECK_EQ(line.ticks_of(501), 1);
  CHECK_EQ(line.ticks_of(500), 0);  // not positive
  CHECK_EQ(line.ticks_of(499), 0);
  CHECK_EQ(line.ticks_of(0), 0);
  const fp::ClockLine fast({0, 500}, {0, 500}, 4.0, 1);
  CHECK_EQ(fast.ticks_of(1000000000000000000), 500 + uint64_t{4000000000000000000});
  CHECK_EQ(fast.ticks_of(1000000000000001000), 0);
}

TEST(both_clocks_are_read_at_one_instant) {
  fp::State* s = fp::state();
  uint64_t calls = 0;
  const uint64_t before = fp::ticks(s);
  const fp::ClockReading reading = fp::read_both_clocks([&calls] { return 100 + ++calls; });
  CHECK_EQ(calls, 5);
  CHECK(reading.theirs > 100 && reading.theirs <= 105);
  CHECK(reading.ticks >= before && reading.ticks <= fp::ticks(s));
  // Their stamp is that of the reading: one of the recorder's own clock lies close to it.
  const fp::ClockReading own = fp::read_both_clocks([s] { return fp::ticks(s); });
  CHECK(own.theirs != 0 && own.ticks != 0);
}
