// SPDX-License-Identifier: Apache-2.0
// Session::capture_so_far(): a copy of what was recorded, again and again, while recording goes on.
#include <atomic>
#include <thread>

#include "recorder_checks.hpp"

using namespace recorder_checks;

TEST(capture_so_far_leaves_everything_to_the_stop) {
  Running session;
  {
    FASTPROF_RANGE("open");
    for (int round = 1; round <= 5; ++round) {
      for (int i = 0; i < 4000; ++i) {
        FASTPROF_RANGE("work");
      }
      const fp::Capture capture = session.capture_so_far();
      fp::validate_capture(capture);
      CHECK_EQ(capture.size(), 4000 * round + 1);
      CHECK_EQ(name_of(capture, 0), "open");
      CHECK(!finished(capture, 0));
      CHECK_EQ(parent_name(capture, capture.size() - 1), "open");
    }
  }
  session.stop();
  CHECK_EQ(session.capture().size(), 20001);
  CHECK(finished(session.capture(), 0));
  CHECK_EQ(session.dropped_events(), 0);
}

TEST(capture_so_far_counts_what_a_full_session_dropped) {
  Running session(with(&Options::max_bytes, 65536));
  for (int i = 0; i < 50000; ++i) {
    FASTPROF_RANGE("work");
  }
  const fp::Capture capture = session.capture_so_far();
  CHECK(capture.size() > 1000);
  CHECK(capture.dropped_total() > 0);
  session.stop();
  CHECK(session.capture().size() >= capture.size());
  CHECK_EQ(session.capture().size() + session.dropped_events(), 50000);
}

TEST(capture_so_far_while_threads_record) {
  Running session;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> produced{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      uint64_t count = 0;
      while (!stop.load() && count < 20000) {
        FASTPROF_RANGE("outer");
        FASTPROF_RANGE("inner");
        ++count;
      }
      produced.fetch_add(count);
    });
  size_t before = 0;
  for (int i = 0; i < 10; ++i) {
    const fp::Capture capture = session.capture_so_far();
    fp::validate_capture(capture);
    CHECK(capture.size() >= before);
    before = capture.size();
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  session.stop();
  CHECK_EQ(session.capture().size() + session.dropped_events(), 2 * produced.load());
}

TEST(capture_so_far_says_why_not) {
  fp::Session session;
  CHECK_THROWS(fp::StateError, session.capture_so_far());
  session.start();
  for (int i = 0; i < 10000; ++i) {
    FASTPROF_RANGE("work");
  }
  CHECK(session.drain() > 0);
  CHECK_THROWS(fp::StateError, session.capture_so_far());
  session.stop();
  CHECK_EQ(session.capture().size(), 10000);
  CHECK_THROWS(fp::StateError, session.capture_so_far());
  Running spilling(with(&Options::overflow, fp::OverflowPolicy::spill_to_file));
  CHECK_THROWS(fp::StateError, spilling.capture_so_far());
  spilling.stop();
}
