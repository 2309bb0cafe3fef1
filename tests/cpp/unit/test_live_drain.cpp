// SPDX-License-Identifier: Apache-2.0
// Session::drain() while the session runs: it moves finished records, makes room for new ones, and
// reads each once.
#include <atomic>
#include <chrono>
#include <thread>

#include "recorder_checks.hpp"

using namespace recorder_checks;

TEST(live_drain_moves_what_is_finished) {
  Running session;
  CHECK_EQ(session.drain(), 0);
  size_t drained = 0;
  {
    FASTPROF_RANGE("around everything");
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 3000; ++i) {
        FASTPROF_RANGE("work");
      }
      const size_t now = session.drain();
      CHECK(now >= drained);
      drained = now;
    }
    // The open range around everything delays its own chunk only.
    CHECK(drained > 40000);
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 60001);
  CHECK_EQ(capture.dropped_total(), 0);
  CHECK_EQ(name_of(capture, 0), "around everything");
  CHECK(finished(capture, 0));
  size_t children = 0;
  for (size_t i = 1; i < capture.size(); ++i) children += capture.parent[i] == 0 ? 1 : 0;
  CHECK_EQ(children, 60000);
}

TEST(live_drain_makes_room) {
  Running session(with(&Options::max_bytes, 4 * 65536));
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 5000; ++i) {
      FASTPROF_RANGE("work");
    }
    session.drain();
  }
  session.stop();
  CHECK_EQ(session.capture().size(), 250000);
  CHECK_EQ(session.dropped_events(), 0);
}

TEST(live_drain_of_an_overwriting_session_reads_each_record_once) {
  Running session(with(&Options::max_bytes, 4 * 65536, &Options::overflow,
                       fp::OverflowPolicy::overwrite_oldest));
  constexpr size_t kRounds = 40, kEach = 4000;
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < kEach; ++i) {
      FASTPROF_RANGE("work");
    }
    session.drain();
  }
  session.stop();
  CHECK_EQ(session.capture().size() + session.dropped_events(), kRounds * kEach);
  CHECK_EQ(session.dropped_events(), 0);  // each chunk was drained before it was overwritten
  for (size_t i = 1; i < session.capture().size(); ++i)
    if (session.capture().start_ns[i] < session.capture().start_ns[i - 1]) CHECK(false);
  CHECK_EQ(fp::state()->session_bits, 0);
}

TEST(drain_while_others_record) {
  // A small bound: one drain must read what was recorded during the drain before.
  Running session(with(&Options::max_bytes, 4 << 20));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> produced{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      uint64_t count = 0;
      while (!stop.load() && count < 50000) {
        for (int i = 0; i < 1000; ++i) {
          FASTPROF_RANGE("outer");
          FASTPROF_RANGE("inner");
          ++count;
        }
        std::this_thread::yield();
      }
      produced.fetch_add(count);
    });
  for (int i = 0; i < 20; ++i) {
    session.drain();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size() + capture.dropped_total(), 2 * produced.load());
  size_t wrong = 0;
  for (size_t i = 0; i < capture.size(); ++i) {
    if (!finished(capture, i)) ++wrong;
    if (name_of(capture, i) == "inner" && capture.dropped_total() == 0 &&
        parent_name(capture, i) != "outer")
      ++wrong;
  }
  CHECK_EQ(wrong, 0);
}
