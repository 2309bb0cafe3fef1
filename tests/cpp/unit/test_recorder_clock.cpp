// SPDX-License-Identifier: Apache-2.0
// TickConverter: one continuous, increasing map from ticks to nanoseconds, with its breaks marked.
#include <algorithm>
#include <memory>
#include <random>
#include <thread>

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

TEST(stamps_agree_with_the_system_clock) {
  Running session;
  const int64_t before = fp::clock_ns(CLOCK_REALTIME);
  { FASTPROF_RANGE("now"); }
  const int64_t after = fp::clock_ns(CLOCK_REALTIME);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const fp::Capture& capture = session.stop();
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
