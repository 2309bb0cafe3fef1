// SPDX-License-Identifier: Apache-2.0
// The process's list of clock knots: which knot replaces another, how a full list is thinned, when
// the next one is due, and the copy in a backing file.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "backing_store_checks.hpp"

using namespace recorder_checks;
using namespace private_state;
using namespace backing_store_checks;
using backing_file_checks::Folder;

namespace {

constexpr uint64_t kSecond = uint64_t{1000000000} << 8;  // stamps of the slow clock: 1/256 ns

// A State whose clock is the slow one, with a list of its own: knots are exact, and the test says
// when they are taken.
std::unique_ptr<fp::State> slow_state() {
  auto s = make_state();
  s->slow_clock = 1;
  fp::add_knot(s.get(), 1);
  s->knots->count = 0;
  return s;
}

// Adds a knot at this stamp, which must be ahead of the clock and of all earlier ones.
void add_at(fp::State* s, uint64_t stamp) {
  s->last_slow_ticks = stamp - 1;
  fp::add_knot(s, 1);
}

std::vector<uint64_t> ticks_of(const fp::KnotBank& bank) {
  std::vector<uint64_t> ticks;
  for (uint64_t i = 0; i < bank.count; ++i) ticks.push_back(bank.knots[i].ticks);
  return ticks;
}

// Years ahead of the clock, and a multiple of 256.
constexpr uint64_t kStart = uint64_t{1} << 62;

}  // namespace

TEST(the_first_knot_fixes_the_offset_to_unix_time) {
  const auto s = make_state();
  fp::add_knot(s.get(), 2);
  CHECK_EQ(s->knots->count, 1);
  CHECK_EQ(s->pending_knot_ticks, 0);
  // The same offset within the time that the four readings took, and the slewing of the clocks.
  const int64_t offset = fp::platform::unix_ns() - fp::platform::monotonic_ns();
  CHECK(s->unix_offset_ns - offset < 1000000000 && offset - s->unix_offset_ns < 1000000000);
  const int64_t before = s->unix_offset_ns;
  fp::add_knot(s.get(), 2);
  CHECK_EQ(s->unix_offset_ns, before);
  CHECK_EQ(s->knots->count, 2);
  const fp::ClockKnot& knot = s->knots->knots[1];
  CHECK(knot.ticks > s->knots->knots[0].ticks);
  CHECK(knot.bracket_ticks >= 0);
}

TEST(a_knot_of_the_slow_clock_is_exact) {
  const auto s = slow_state();
  add_at(s.get(), kStart + 256 * 1000 + 255);
  const fp::ClockKnot& knot = s->knots->knots[0];
  CHECK_EQ(knot.ticks, kStart + 256 * 1000 + 255);
  CHECK_EQ(knot.monotonic_ns, static_cast<int64_t>(kStart / 256) + 1000);
  CHECK_EQ(knot.bracket_ticks, 0);
}

TEST(knots_within_a_millisecond_replace_each_other) {
  const auto s = slow_state();
  const auto at_ns = [](uint64_t ns) { return kStart + 256 * ns; };
  add_at(s.get(), at_ns(0));
  add_at(s.get(), at_ns(400000));
  // (0, this one) would be too short a segment as well: both stay.
  add_at(s.get(), at_ns(900000));
  CHECK_EQ(s->knots->count, 3);
  // (400000, this one) is exactly long enough.
  add_at(s.get(), at_ns(1400000));
  CHECK_EQ(s->knots->count, 3);
  CHECK_EQ(s->knots->knots[2].ticks, at_ns(1400000));
  CHECK_EQ(s->knots->knots[1].ticks, at_ns(400000));
  // A millisecond after the last one: a knot of its own.
  add_at(s.get(), at_ns(2400000));
  CHECK_EQ(s->knots->count, 4);
  add_at(s.get(), at_ns(3399999));
  CHECK_EQ(s->knots->count, 4);
  CHECK_EQ(s->knots->knots[3].ticks, at_ns(3399999));
  // One that goes back replaces nothing.
  const uint64_t last = s->knots->knots[2].ticks;
  s->knots->knots[2].ticks = at_ns(5000000);
  add_at(s.get(), at_ns(3500000));
  CHECK_EQ(s->knots->count, 5);
  s->knots->knots[2].ticks = last;
}

TEST(a_full_list_is_thinned_to_every_second_knot_and_the_newest) {
  const auto s = slow_state();
  for (uint64_t i = 0; i < 2048; ++i) add_at(s.get(), kStart + i * kSecond);
  CHECK_EQ(s->knots->count, 2048);
  add_at(s.get(), kStart + 2048 * kSecond);
  CHECK_EQ(s->knots->count, 1024 + 2);
  for (uint32_t i = 0; i < 1024; ++i) CHECK_EQ(s->knots->knots[i].ticks, kStart + 2 * i * kSecond);
  CHECK_EQ(s->knots->knots[1024].ticks, kStart + 2047 * kSecond);
  CHECK_EQ(s->knots->knots[1025].ticks, kStart + 2048 * kSecond);
}

TEST(the_next_knot_is_due_a_second_later) {
  const auto s = slow_state();
  add_at(s.get(), kStart);
  CHECK_EQ(s->pending_knot_ticks, 0);
  add_at(s.get(), kStart + kSecond / 10);
  const uint64_t due = s->pending_knot_ticks - s->knots->knots[1].ticks;
  CHECK(due > kSecond - 1000 && due < kSecond + 1000);  // computed in floating point
  // Knots that go back leave it.
  s->knots->knots[0].ticks = s->knots->knots[1].ticks + kSecond;
  add_at(s.get(), kStart + kSecond / 5);
  CHECK_EQ(s->pending_knot_ticks, kStart + kSecond / 10 + due);
}

TEST(a_file_has_more_knots_in_its_first_second) {
  const Folder folder;
  const auto s = slow_state();
  open_file(s.get(), folder.file());
  const auto wait = [&](uint64_t ns) {  // of a knot so long after the first
    s->knots->count = 0;
    add_at(s.get(), kStart);
    add_at(s.get(), kStart + 256 * ns);
    const uint64_t due = s->pending_knot_ticks - s->knots->knots[1].ticks;
    return (due + 25600) / 256 / 1000;  // microseconds, rounded
  };
  CHECK_EQ(wait(1), 2000);
  CHECK_EQ(wait(499999), 2000);
  CHECK_EQ(wait(500000), 2000);
  CHECK_EQ(wait(1000000), 4000);
  CHECK_EQ(wait(100000000), 400000);
  CHECK_EQ(wait(249999999), 1000000);
  CHECK_EQ(wait(250000000), 1000000);
  CHECK_EQ(wait(2000000000), 1000000);
  fp::end_file(s.get());
}

TEST(a_file_has_a_copy_of_the_knots) {
  const Folder folder;
  const auto s = slow_state();
  const auto header = [&] { return read_at<fp::BackingHeader>(folder.file(), 0); };
  const auto bank = [&](uint64_t i) {
    return read_at<fp::KnotBank>(folder.file(), 16384 + i * sizeof(fp::KnotBank));
  };
  s->unix_offset_ns = 1234567;
  for (uint64_t i = 0; i < 3; ++i) add_at(s.get(), kStart + i * kSecond);
  open_file(s.get(), folder.file());
  CHECK_EQ(header().unix_offset_ns, 1234567);
  CHECK_EQ(header().knot_bank, 0);
  CHECK_EQ(bank(0).count, 3);
  CHECK_EQ(bank(1).count, 0);
  CHECK_EQ(bank(0).knots[2].ticks, kStart + 2 * kSecond);
  CHECK_EQ(bank(0).knots[2].monotonic_ns, s->knots->knots[2].monotonic_ns);
  // More knots are appended.
  for (uint64_t i = 3; i < 500; ++i) add_at(s.get(), kStart + i * kSecond);
  CHECK_EQ(header().knot_bank, 0);
  CHECK_EQ(bank(0).count, 500);
  CHECK_EQ(bank(0).knots[499].ticks, kStart + 499 * kSecond);
  CHECK_EQ(bank(1).count, 0);
  // The newest 500 of a longer list, in the other bank each time.
  add_at(s.get(), kStart + 500 * kSecond);
  CHECK_EQ(header().knot_bank, 1);
  CHECK_EQ(bank(1).count, 500);
  CHECK_EQ(bank(1).knots[0].ticks, kStart + kSecond);
  CHECK_EQ(bank(1).knots[499].ticks, kStart + 500 * kSecond);
  CHECK_EQ(bank(0).knots[0].ticks, kStart);
  add_at(s.get(), kStart + 501 * kSecond);
  CHECK_EQ(header().knot_bank, 0);
  CHECK_EQ(bank(0).count, 500);
  CHECK_EQ(bank(0).knots[0].ticks, kStart + 2 * kSecond);
  CHECK_EQ(bank(0).knots[499].ticks, kStart + 501 * kSecond);
  fp::end_file(s.get());
}

TEST(a_list_that_was_changed_goes_to_the_other_bank) {
  const Folder folder;
  const auto s = slow_state();
  for (uint64_t i = 0; i < 4; ++i) add_at(s.get(), kStart + i * kSecond);
  open_file(s.get(), folder.file());
  const auto bank = [&](uint64_t i) {
    return ticks_of(read_at<fp::KnotBank>(folder.file(), 16384 + i * sizeof(fp::KnotBank)));
  };
  const auto valid = [&] { return read_at<fp::BackingHeader>(folder.file(), 0).knot_bank; };
  const std::vector<uint64_t> four = bank(0);
  CHECK_EQ(four.size(), 4);
  fp::copy_knots(s.get());  // the same list
  CHECK_EQ(valid(), 0);
  CHECK(bank(0) == four && bank(1).empty());
  // The last one was replaced.
  s->knots->knots[3].ticks += 7;
  fp::copy_knots(s.get());
  CHECK_EQ(valid(), 1);
  CHECK_EQ(bank(1).at(3), four[3] + 7);
  CHECK(bank(0) == four);
  // It was thinned.
  s->knots->count = 3;
  fp::copy_knots(s.get());
  CHECK_EQ(valid(), 0);
  CHECK_EQ(bank(0).size(), 3);
  CHECK_EQ(bank(1).size(), 4);
  fp::end_file(s.get());
}

TEST(a_file_that_is_opened_before_there_are_knots_has_none) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  CHECK_EQ(read_at<fp::KnotBank>(folder.file(), 16384).count, 0);
  fp::add_knot(s.get(), 1);
  CHECK_EQ(read_at<fp::KnotBank>(folder.file(), 16384).count, 1);
  CHECK_EQ(read_at<fp::BackingHeader>(folder.file(), 0).unix_offset_ns, s->unix_offset_ns);
  fp::end_file(s.get());
}

TEST(stamps_of_the_slow_clock_are_unique_in_the_process) {
  const auto s = make_state();
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
