// SPDX-License-Identifier: Apache-2.0
// TickConverter: one continuous, increasing map from ticks to nanoseconds, with its breaks marked.
#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

fp::ClockKnot knot(uint64_t ticks, int64_t ns, int64_t suspended_ns = 0) {
  return {ticks, ns, 32, suspended_ns};
}

}  // namespace

TEST(knots_map_to_themselves_and_the_line_between_is_straight) {
  fp::TickConverter clock(
      {knot(1000, 500), knot(3'000'001'000, 1'000'000'500), knot(6'000'001'000, 2'000'000'500)}, 7);
  CHECK_EQ(clock.to_ns(1000), 507);
  CHECK_EQ(clock.to_ns(3'000'001'000), 1'000'000'507);
  CHECK_EQ(clock.to_ns(1'500'001'000), 500'000'507);
  CHECK_EQ(clock.to_ns(6'000'001'000), 2'000'000'507);
  CHECK_EQ(clock.to_ns(9'000'001'000), 3'000'000'507);           // beyond the last
  CHECK(clock.to_ns(700) < 507 && clock.to_ns(700) >= 407 - 1);  // before the first
  CHECK(!clock.discontinuous(1000, 9'000'001'000));
}

TEST(the_map_never_goes_back) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<fp::ClockKnot> knots;
    uint64_t ticks = random() % 1000000;
    int64_t ns = 1'000'000'000;
    for (int i = 0; i < 40; ++i) {
      knots.push_back(knot(ticks, ns));
      const auto step = static_cast<int64_t>(1000 + random() % 2'000'000'000);
      ns += step;
      ticks += static_cast<uint64_t>(static_cast<double>(step) *
                                     (2.6 + 0.0001 * static_cast<double>(random() % 10)));
    }
    const uint64_t first = knots.front().ticks, last = knots.back().ticks;
    fp::TickConverter clock(knots, 0);
    for (const fp::ClockKnot& k : knots) {
      const int64_t at = clock.to_ns(k.ticks);
      CHECK(at >= k.monotonic_ns - 1 && at <= k.monotonic_ns + 1);
      // Continuous: the last stamp of a segment is not above the first of the next, and not far
      // below.
      CHECK(clock.to_ns(k.ticks - 1) <= at);
      CHECK(at - clock.to_ns(k.ticks - 1) <= 2);
    }
    std::vector<uint64_t> stamps;
    for (int i = 0; i < 2000; ++i) stamps.push_back(first + random() % (last - first));
    std::sort(stamps.begin(), stamps.end());
    for (size_t i = 1; i < stamps.size(); ++i)
      if (clock.to_ns(stamps[i]) < clock.to_ns(stamps[i - 1])) CHECK(false);
    // In any order the same answers: the remembered segment must not matter.
    for (int i = 0; i < 500; ++i) {
      const uint64_t a = stamps[random() % stamps.size()];
      fp::TickConverter fresh(knots, 0);
      if (clock.to_ns(a) != fresh.to_ns(a)) CHECK(false);
    }
  }
}

TEST(jumps_and_suspends_are_breaks) {
  const uint64_t second = 2'600'000'000;
  // The kernel's clock gained 0.5 s while the counter did not: a live migration.
  fp::TickConverter jumped({knot(second, 1'000'000'000), knot(2 * second, 2'000'000'000),
                            knot(3 * second, 3'500'000'000)},
                           0);
  CHECK(!jumped.discontinuous(second, 2 * second));
  CHECK(jumped.discontinuous(2 * second, 3 * second));
  fp::TickConverter slept(
      {knot(second, 1'000'000'000), knot(2 * second, 2'000'000'000, 60'000'000'000)}, 0);
  CHECK(slept.discontinuous(second, 2 * second));
  // A counter that went back: later knots are ignored until it has caught up, and the place is
  // marked.
  fp::TickConverter back({knot(5 * second, 1'000'000'000), knot(6 * second, 2'000'000'000),
                          knot(second, 3'000'000'000)},
                         0);
  CHECK(back.discontinuous(5 * second, 6 * second));
  CHECK_EQ(back.to_ns(6 * second), 2'000'000'000);
}

TEST(few_knots_are_enough_to_convert) {
  fp::TickConverter none({}, 0);
  CHECK_EQ(none.to_ns(5), 5);
  fp::TickConverter one({knot(100, 1000)}, 0);
  CHECK_EQ(one.to_ns(150), 1050);
  CHECK_EQ(one.to_ns(50), 950);
}

TEST(the_limits_of_breaks) {
  const auto breaks = [](std::vector<fp::ClockKnot> knots) {
    return fp::TickConverter(std::move(knots), 0).discontinuous(0, UINT64_MAX);
  };
  constexpr int64_t second = 1'000'000'000;
  // Suspended for more than 1 ms, by either sign.
  for (const int64_t ns : {1'000'001, -1'000'001})
    CHECK(breaks({knot(1, 1), knot(second + 1, second + 1, ns)}));
  for (const int64_t ns : {1'000'000, -1'000'000})
    CHECK(!breaks({knot(1, 1), knot(second + 1, second + 1, ns)}));
  // A rate that differs by more than 0.1 % from the first one.
  const auto then = [&](int64_t ns) {
    return breaks({knot(0, 0), knot(second, second), knot(2 * second, second + ns)});
  };
  CHECK(!then(1'001'000'000));
  CHECK(then(1'001'001'000));
  CHECK(!then(999'000'000));
  CHECK(then(998'999'000));
  // Over 1 ms and less, the rate is not tested, nor is it the norm.
  CHECK(!breaks({knot(0, 0), knot(second, second), knot(second + 100'000, second + 1'000'000)}));
  CHECK(breaks({knot(0, 0), knot(second, second), knot(second + 100'000, second + 1'000'001)}));
  CHECK(!breaks({knot(0, 0), knot(100'000, 1'000'000), knot(second, second + 900'000)}));
  CHECK(breaks({knot(0, 0), knot(100'000, 1'000'001), knot(second, second + 900'001)}));
  // A counter that stands still or goes back while time passes. A kernel's clock that does so says
  // nothing about the counter.
  CHECK(breaks({knot(0, 0), knot(100, 100), knot(100, 101)}));
  CHECK(breaks({knot(0, 0), knot(100, 100), knot(99, 101)}));
  CHECK(!breaks({knot(0, 0), knot(100, 100), knot(100, 100)}));
  CHECK(!breaks({knot(0, 0), knot(100, 100), knot(101, 100)}));
  CHECK(!breaks({knot(0, 0), knot(100, 100), knot(101, 99)}));
}

TEST(a_break_lies_between_the_stamps_on_either_side) {
  fp::TickConverter clock(
      {knot(1000, 1000), knot(2000, 2000, 5'000'000), knot(3000, 3000, 5'000'000)}, 0);
  CHECK(clock.discontinuous(1999, 2000));
  CHECK(clock.discontinuous(0, 9999));
  CHECK(!clock.discontinuous(2000, 2001));
  CHECK(!clock.discontinuous(1000, 1999));
  CHECK(!clock.discontinuous(2999, 3001));
}

TEST(each_segment_has_its_own_slope) {
  const std::vector<fp::ClockKnot> knots = {knot(100, 1000), knot(200, 1100), knot(300, 1300),
                                            knot(400, 1600)};
  const std::pair<uint64_t, int64_t> expected[] = {
      {0, 900},    {99, 999},   {100, 1000}, {101, 1001}, {199, 1099}, {200, 1100}, {201, 1102},
      {299, 1298}, {300, 1300}, {301, 1303}, {399, 1597}, {400, 1600}, {401, 1603}, {1000, 3400},
  };
  for (const auto& [first, at_first] : expected) {
    for (const auto& [second, at_second] : expected) {
      fp::TickConverter clock(knots, 0);
      CHECK_EQ(clock.to_ns(first), at_first);
      CHECK_EQ(clock.to_ns(second), at_second);
    }
  }
}

TEST(halves_of_nanoseconds_are_rounded_up) {
  fp::TickConverter clock({knot(1000, 1000), knot(3000, 2000)}, 0);
  CHECK_EQ(clock.to_ns(1001), 1001);
  CHECK_EQ(clock.to_ns(1002), 1001);
  CHECK_EQ(clock.to_ns(1003), 1002);
  CHECK_EQ(clock.to_ns(999), 999);
  CHECK_EQ(clock.to_ns(998), 999);
}

TEST(the_error_is_half_the_widest_bracket) {
  const auto error = [](std::vector<fp::ClockKnot> knots) {
    return fp::TickConverter(std::move(knots), 0).error_ns();
  };
  CHECK_EQ(error({}), 0);
  CHECK_EQ(error({{0, 0, 0, 0}, {100, 100, 0, 0}}), 0);
  CHECK_EQ(error({{0, 0, 64, 0}, {100, 100, 40, 0}}), 32);
  CHECK_EQ(error({{0, 0, 40, 0}, {100, 100, 64, 0}}), 32);
  CHECK_EQ(error({{0, 0, 40, 0}, {100, 200, 64, 0}}), 64);  // of 2 ns a tick
}

TEST(the_list_of_knots_stays_bounded) {
  fp::State* s = fp::state();
  fp::StateLock hold(s);
  for (int i = 0; i < 5000; ++i) {
    fp::add_knot(s, 1);
    CHECK(s->knots->count <= fp::kMaxKnots);
    for (uint32_t k = 1; k < s->knots->count; ++k)
      if (s->knots->knots[k].ticks <= s->knots->knots[k - 1].ticks) CHECK(false);
    if (i % 100 == 0) ::usleep(1100);
  }
}

TEST(stamps_agree_with_the_system_clock) {
  fp::Session session;
  session.start();
  const int64_t before = fp::clock_ns(CLOCK_REALTIME);
  { FASTPROF_RANGE("now"); }
  const int64_t after = fp::clock_ns(CLOCK_REALTIME);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  session.stop();
  const fp::Capture& capture = session.capture();
  // One offset between the clocks for the life of the process; the calibration is good to its own
  // error, and the system clock may be slewed by 500 ppm meanwhile.
  const int64_t slack = 2000 + capture.clock_error_ns + 1'000'000;
  CHECK(capture.start_ns[0] >= before - slack);
  CHECK(capture.end_ns[0] <= after + slack);
  CHECK(capture.t1_ns - capture.t0_ns >= 20'000'000 - 1'000'000);
}

TEST(stamps_of_the_slow_clock_are_unique_in_the_process) {
  const auto s = std::make_unique<fp::State>();
  s->simulated_counter_hz = 1;  // the clock itself hardly advances
  constexpr size_t kThreads = 4, kEach = 50000;
  std::vector<std::vector<uint64_t>> stamps(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<uint64_t>& own : stamps)
    threads.emplace_back([&own, &s] {
      for (size_t i = 0; i < kEach; ++i) own.push_back(fp::slow_ticks(s.get()));
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<uint64_t> all;
  for (const std::vector<uint64_t>& own : stamps) {
    CHECK(std::is_sorted(own.begin(), own.end()));
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  CHECK_EQ(all.size(), kThreads * kEach);
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}
