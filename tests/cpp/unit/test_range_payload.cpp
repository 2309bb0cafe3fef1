// SPDX-License-Identifier: Apache-2.0
// Counters and native stacks of ranges, through a session: what a program sees.
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "check.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;
using recorder_checks::in_child;
using recorder_checks::rows_named;
using recorder_checks::Running;
#define NOINLINE __attribute__((noinline))

static void touch_pages(size_t count) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto* memory = static_cast<volatile char*>(
      ::mmap(nullptr, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(const_cast<char*>(memory), count * page, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < count; ++i) memory[i * page] = 1;
  ::munmap(const_cast<char*>(memory), count * page);
}

NOINLINE static void worker(size_t pages) {
  FASTPROF_RANGE("work");
  touch_pages(pages);
}
NOINLINE static void outer_caller(size_t pages) {
  worker(pages);
  __asm__ volatile("" ::: "memory");
}

TEST(every_range_has_its_stack_and_it_starts_in_the_function_of_the_range) {
  SessionOptions options;
  options.cpp_stacks = true;
  Running session(options);
  for (int i = 0; i < 3; ++i) outer_caller(1);
  std::thread([] { outer_caller(1); }).join();
  const Capture& capture = session.stop();
  const std::vector<size_t> rows = rows_named(capture, "work");
  CHECK_EQ(rows.size(), size_t{4});
  Symbolizer symbols;
  for (const size_t row : rows) {
    const CppStackFrames frames = decode_cpp_stack(capture, row);
    CHECK(frames.count >= 3);
    if (frames.count < 3) continue;
    CHECK(symbols.return_address(frames.addresses[0]).function.find("worker(") == 0);
    CHECK(symbols.return_address(frames.addresses[1]).function.find("outer_caller(") == 0);
    CHECK(decode_counters(capture, row).status == CounterStatus::none);
  }
}

TEST(counters_of_ranges_are_those_of_their_thread) {
  const CounterProbe probe = probe_counters({"page-faults", "task-clock"});
  if (!probe.available) {
    std::printf("not on this machine: %s\n", probe.reason.c_str());
    SessionOptions refused;
    refused.counters = {"page-faults", "task-clock"};
    CHECK_THROWS(UnavailableError, Session(refused).start());
    return;
  }
  SessionOptions options;
  options.counters = {"page-faults", "task-clock"};
  Running session(options);
  outer_caller(100);
  std::thread([] { outer_caller(300); }).join();
  const Capture& capture = session.stop();
  CHECK_EQ(capture.counter_names.size(), size_t{2});
  const std::vector<size_t> rows = rows_named(capture, "work");
  CHECK_EQ(rows.size(), size_t{2});
  bool small = false, large = false;
  for (const size_t row : rows) {
    const CounterDeltas deltas = decode_counters(capture, row);
    CHECK(deltas.status == CounterStatus::counted);
    CHECK(deltas.delta[1] > 0);
    small = small || (deltas.delta[0] >= 100 && deltas.delta[0] < 200);
    large = large || deltas.delta[0] >= 300;
    CHECK_EQ(decode_cpp_stack(capture, row).count, 0u);
  }
  CHECK(FASTPROF_TSAN || small);
  CHECK(large);
}

TEST(nested_ranges_and_a_child_process) {
  SessionOptions options;
  options.cpp_stacks = true;
  options.max_frames = 2;
  Running session(options);
  {
    FASTPROF_RANGE("outside");
    FASTPROF_RANGE("inside");
    CHECK_EQ(in_child([] {
               outer_caller(1);  // not recorded, must not fail
               return 0;
             }),
             0);
  }
  const Capture& capture = session.stop();
  CHECK_EQ(capture.size(), size_t{2});
  for (size_t row = 0; row < capture.size(); ++row) {
    const CppStackFrames frames = decode_cpp_stack(capture, row);
    CHECK_EQ(frames.count, 2u);
    CHECK(frames.truncated);
  }
}

TEST(sessions_with_other_details_come_and_go_while_threads_record) {
  std::atomic<bool> stop{false};
  std::thread threads[3];
  for (std::thread& thread : threads)
    thread = std::thread([&stop] {
      while (!stop) outer_caller(1);
    });
  size_t rows = 0, with_stack = 0;
  for (uint32_t round = 0; round < 20; ++round) {
    SessionOptions options;
    options.cpp_stacks = true;
    options.max_frames = 1 + round % 3;
    if (round % 4 == 0 && probe_counter("task-clock").available) options.counters = {"task-clock"};
    Running session(options);
    outer_caller(1);
    const Capture& capture = session.stop();
    for (const size_t row : rows_named(capture, "work")) {
      const CppStackFrames frames = decode_cpp_stack(capture, row);
      ++rows;
      if (frames.count != 0) ++with_stack;
      CHECK(frames.count <= 3);
      decode_counters(capture, row);
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(rows >= 20);
  CHECK(with_stack >= 20);  // this thread's own at least
}
