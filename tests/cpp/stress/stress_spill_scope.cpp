// SPDX-License-Identifier: Apache-2.0
// Spilling to a file under load, and handlers that record inside a signal_scope: every event is
// accounted for.
#include <atomic>
#include <thread>

#include "interrupts.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

std::atomic<uint64_t> in_handler{0};

void scoped_handler(int) {
  const int saved = errno;
  const fastprof::signal_scope scope;
  for (int i = 0; i < 3; ++i) {
    FASTPROF_RANGE("in handler");
    in_handler.fetch_add(1, std::memory_order_relaxed);
  }
  errno = saved;
}

}  // namespace

// More is recorded than the bound holds, by several threads, with an open range around it all: what
// the spill thread could not move in time is counted, the rest comes back in order with its
// arguments.
TEST(spilled_records_come_back) {
  Running session(with(&Options::max_bytes, 4 << 20, &Options::overflow,
                       fastprof::OverflowPolicy::spill_to_file));
  constexpr uint64_t kEach = 60000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      FASTPROF_RANGE("thread");
      for (uint64_t i = 0; i < kEach; ++i) {
        FASTPROF_RANGE_ARGS("step", "i", i, "kind", "spilled");
        FASTPROF_RANGE("inner");
        if (i % 512 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const fastprof::Capture& capture = session.stop();
  fastprof::validate_capture(capture);
  CHECK_EQ(capture.size() + capture.dropped_total(), 3 * (2 * kEach + 1));
  CHECK(capture.size() > (4u << 20) / sizeof(fastprof::Slot));  // more than the bound holds at once
  uint64_t wrong = 0;
  for (const fastprof::EventView event : session.events()) {
    if (event.name() != "step") continue;
    if (event.arg_count() != 2 || event.arg_number(0) >= static_cast<double>(kEach) ||
        event.arg_text(1) != "spilled")
      ++wrong;
  }
  CHECK_EQ(wrong, 0u);
}

// A thread-local session keeps to its thread in what it spilled, too.
TEST(a_thread_local_session_spills_its_own_thread) {
  fastprof::SessionOptions options;
  options.max_bytes = 2 << 20;
  options.overflow = fastprof::OverflowPolicy::spill_to_file;
  options.thread_local_only = true;
  fastprof::Session everything;  // without it the other thread would record nothing
  everything.start();
  Running session(options);
  constexpr uint64_t kEach = 150000;
  std::thread other([] {
    for (uint64_t i = 0; i < kEach; ++i) {
      FASTPROF_RANGE("other");
      if (i % 2048 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (uint64_t i = 0; i < kEach; ++i) {
    FASTPROF_RANGE("mine");
    if (i % 2048 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  other.join();
  session.stop();
  everything.stop();
  CHECK_EQ(count_named(everything.capture(), "other"), kEach);
  const fastprof::Capture& capture = session.capture();
  CHECK_EQ(count_named(capture, "other"), size_t{0});
  CHECK_EQ(count_named(capture, "mine") + capture.dropped_total(), kEach);
  CHECK(capture.size() > (2u << 20) / sizeof(fastprof::Slot));  // so part of it came from the file
}

// Recorded + dropped = produced, by the interrupted code and by the handlers.
TEST(handlers_in_a_signal_scope_lose_nothing) {
  Running session;
  in_handler = 0;
  constexpr uint64_t kMain = 400000;
  {
    const Interrupts interrupts(&scoped_handler, 500'000);
    CHECK(interrupts.made());
    for (uint64_t i = 0; i < kMain; ++i) {
      FASTPROF_RANGE("main");
    }
  }
  const fastprof::Capture& capture = session.stop();
  fastprof::validate_capture(capture);
  CHECK_EQ(
      count_named(capture, "main") + count_named(capture, "in handler") + capture.dropped_total(),
      kMain + in_handler.load());
  CHECK_EQ(count_named(capture, "main"), kMain);
  CHECK_EQ(capture.dropped_total(), session.dropped_events(fastprof::DropCause::reentrant));
}
