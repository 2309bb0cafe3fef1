// SPDX-License-Identifier: Apache-2.0
// Signal handlers that record at a high rate into the threads they interrupt, without signal_scope:
// some of what they interrupt may be lost, memory never.
#include <signal.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "interrupts.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

std::atomic<uint64_t> handled{0};
#if FASTPROF_ASAN || FASTPROF_TSAN
constexpr long kFillingPeriodNs =
    5'000'000;  // a handler must end before the next one, or nothing else ever runs
#else
constexpr long kFillingPeriodNs = 300'000;
#endif
std::atomic<int> fillers{
    0};  // more records by each handler: enough to change the chunk under what it interrupts

void handler(int) {
  const int saved = errno;
  for (int i = 0; i < 3; ++i) {
    FASTPROF_RANGE("in handler");
    FASTPROF_MARK("mark in handler");
  }
  { FASTPROF_RANGE_ARGS("args in handler", "i", 1, "s", "text", "j", 2, "k", 3); }
  for (int i = fillers.load(std::memory_order_relaxed); i > 0; --i) {
    FASTPROF_RANGE("in handler");
  }
  handled.fetch_add(1, std::memory_order_relaxed);
  errno = saved;
}

struct Load {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> produced{0}, rounds{0};

  explicit Load(int count) {
    for (int t = 0; t < count; ++t)
      threads.emplace_back([this, t] {
        const Interrupts interrupts(&handler,
                                    fillers.load() == 0 ? 40'000 + 7'000 * t : kFillingPeriodNs);
        uint64_t own = 0;
        while (!stop.load(std::memory_order_relaxed)) {
          for (int i = 0; i < 500; ++i) {
            FASTPROF_RANGE("outer");
            FASTPROF_RANGE_ARGS("inner", "i", i, "j", i, "k", i, "l", i);
            ++own;
          }
          rounds.fetch_add(1);
          std::this_thread::yield();
        }
        produced.fetch_add(own);
      });
  }
  // Returns when a thread has recorded a round of which all came after this call.
  void wait_for_round() {
    const uint64_t last = rounds.load() + threads.size() + 1;
    while (rounds.load() < last) std::this_thread::yield();
  }
  void join() {
    stop.store(true);
    for (auto& thread : threads) thread.join();
  }
};

void check_rows(const fp::Capture& capture) {
  fp::validate_capture(capture);
  size_t strange = 0;
  for (size_t i = 0; i < capture.size(); ++i) {
    const std::string& name = name_of(capture, i);
    if (name != "outer" && name != "inner" && name != "in handler" && name != "mark in handler" &&
        name != "args in handler")
      ++strange;
  }
  CHECK_EQ(strange, 0);
}

}  // namespace

TEST(handlers_under_every_policy_corrupt_nothing) {
  const long rounds = scaled(12);
  for (long round = 0; round < rounds; ++round) {
    fp::SessionOptions options;
    options.max_bytes = round % 3 == 0 ? 0 : static_cast<uint64_t>(8 + round) * 65536;
    if (round % 3 == 1) options.overflow = fp::OverflowPolicy::overwrite_oldest;
    fp::Session session(options);
    Load load(2);
    session.start();
    load.wait_for_round();
    for (int i = 0; i < 10; ++i) {
      ::usleep(2000);
      if (round % 2 == 0) session.drain();
    }
    session.stop();
    load.join();
    check_rows(session.capture());
    CHECK(session.capture().size() > 0);
  }
  CHECK(handled.load() > 0);
}

TEST(handlers_that_change_the_chunk_under_a_reservation) {
  fillers.store(static_cast<int>(fp::kChunkCapacity));
  for (long round = 0; round < scaled(6); ++round) {
    fp::Session session(with(&Options::max_bytes, 64 * 65536, &Options::overflow,
                             fp::OverflowPolicy::overwrite_oldest));
    Load load(2);
    session.start();
    ::usleep(200000);
    session.stop();
    load.join();
    check_rows(session.capture());
  }
  fillers.store(0);
}

TEST(handlers_while_sessions_start_and_stop) {
  const long rounds = scaled(150);
  const Interrupts interrupts(&handler,
                              50'000);  // this thread too, in the middle of the control plane
  Load load(1);
  for (long round = 0; round < rounds; ++round) {
    Running session;
    if (round % 4 == 0) ::usleep(300);
    session.stop();
    check_rows(session.capture());
  }
  load.join();
}

TEST(handlers_that_intern_names) {
  static std::atomic<uint64_t> names{0};
  struct sigaction action {};
  action.sa_handler = [](int) {
    char name[32];
    uint64_t n = names.fetch_add(1, std::memory_order_relaxed) % 20000;
    size_t at = 0;
    do {
      name[at++] = static_cast<char>('0' + n % 10);
      n /= 10;
    } while (n != 0);
    FASTPROF_RANGE_DYNAMIC(std::string_view(name, at));
  };
  sigaction(SIGRTMIN + 1, &action, nullptr);
  std::atomic<bool> stop{false};
  const pid_t tid = static_cast<pid_t>(::syscall(SYS_gettid));
  Running session;
  std::thread sender([&] {
    while (!stop.load()) {
      ::syscall(SYS_tgkill, ::getpid(), tid, SIGRTMIN + 1);
      ::usleep(20);
    }
  });
  for (long i = 0; i < scaled(20000); ++i) {
    FASTPROF_RANGE_DYNAMIC("own " + std::to_string(i % 5000));
  }
  stop.store(true);
  sender.join();
  session.stop();
  CHECK(session.capture().size() > 0);
}
