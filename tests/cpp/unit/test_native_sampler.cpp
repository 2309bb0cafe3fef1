// SPDX-License-Identifier: Apache-2.0
// NativeSampler against programs whose shares are known, and against what may happen to threads.
#include <fcntl.h>
#include <signal.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "check.hpp"
#include "fastprof/sampling.hpp"
#include "threads_in_children.hpp"

namespace {

int64_t own_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

// Extern "C": the names in the symbol table are these.
extern "C" {
__attribute__((noinline)) void planted_spin(int64_t ns) {
  const int64_t end = own_cpu_ns() + ns;
  while (own_cpu_ns() < end)
    for (int i = 0; i < 20000; ++i) __asm__ __volatile__("" ::: "memory");
  __asm__ __volatile__("");
}
__attribute__((noinline)) void planted_one(int64_t ns) {
  planted_spin(ns);
  __asm__ __volatile__("");
}
__attribute__((noinline)) void planted_three(int64_t ns) {
  planted_spin(3 * ns);
  __asm__ __volatile__("");
}
__attribute__((noinline)) void planted_deep(int depth, int64_t ns) {
  if (depth == 0)
    planted_spin(ns);
  else
    planted_deep(depth - 1, ns);
  __asm__ __volatile__("");
}
__attribute__((noinline)) void planted_wait(std::mutex* lock) {
  lock->lock();
  lock->unlock();
  __asm__ __volatile__("");
}
}

// Samples at 1000 Hz whose stacks contain a function.
[[maybe_unused]] uint64_t samples_with(const std::string& collapsed, const std::string& function) {
  uint64_t sum = 0;
  for (size_t at = 0; at < collapsed.size();) {
    const size_t end = collapsed.find('\n', at);
    const std::string line = collapsed.substr(at, end - at);
    if (line.find(";" + function + " ") != std::string::npos)
      sum += std::stoull(line.substr(line.rfind(' ') + 1)) / 1000000;  // a sample is 1 ms
    at = end + 1;
  }
  return sum;
}

#define START(sampler) \
  if (const std::string problem = (sampler).start(); !problem.empty()) SKIP(problem)

struct sigaction action_now() {
  struct sigaction now {};
  sigaction(SIGURG, nullptr, &now);
  return now;
}

std::atomic<int> urgent{0};
void count_urgent(int) {
  urgent.fetch_add(1);
}

TEST(shares_of_planted_functions) {
  fastprof::NativeSampler sampler;
  START(sampler);
  for (int round = 0; round < 100; ++round) {
    planted_one(1000000);
    planted_three(1000000);
  }
  const fastprof::NativeSamples found = sampler.stop();
  const std::string text = found.collapsed(true);
#if !FASTPROF_TSAN  // which runs handlers later than the signals arrive
  const auto one = static_cast<double>(samples_with(text, "planted_one"));
  const auto three = static_cast<double>(samples_with(text, "planted_three"));
  // Binomial with a share of 1/4: 7 standard deviations, twice over because samples are clustered.
  const double size = one + three;
  CHECK(size > 30);
  CHECK(std::abs(one - size / 4) < 14 * std::sqrt(size * 3 / 16));
  CHECK(2 * samples_with(text, "check::run_all") > static_cast<uint64_t>(size));
#endif
  CHECK(found.counts.ticks > 0);
  CHECK(sampler.stop().samples.empty());
}

TEST(deep_stacks_and_limits) {
  fastprof::SamplerOptions options;
  options.max_depth = 20;
  options.max_samples = 5;
  fastprof::NativeSampler sampler(options);
  START(sampler);
  planted_deep(2000, 200000000);
  const fastprof::NativeSamples found = sampler.stop();
  CHECK(found.samples.size() <= 5);
  for (const fastprof::NativeSample& sample : found.samples) {
    int depth = 0;
    for (int32_t at = sample.node; at >= 0; at = found.nodes[static_cast<size_t>(at)].parent)
      ++depth;
    CHECK(depth <= 20);
  }
}

TEST(threads_that_are_born_die_and_wait) {
  fastprof::NativeSampler sampler;
  START(sampler);
  std::mutex lock;
  lock.lock();
  std::thread waiting(planted_wait, &lock);
  const int64_t end_ns = own_cpu_ns() + 200000000;
  int born = 0;
  while (own_cpu_ns() < end_ns) {
    std::thread brief([] { planted_one(2000000); });
    planted_one(1000000);
    brief.join();
    ++born;
  }
  lock.unlock();
  waiting.join();
  const fastprof::NativeSamples found = sampler.stop();
  CHECK(found.threads.size() > 2);
#if !FASTPROF_TSAN
  const std::string text = found.collapsed();
  CHECK(samples_with(text, "planted_wait") > 10);
  CHECK(samples_with(text, "planted_one") > 10);
#endif
}

TEST(system_calls_of_waiting_threads_are_not_interrupted) {
  fastprof::NativeSampler sampler;
  START(sampler);
  int interrupted = 0;
  std::thread sleeper([&interrupted] {
    const timespec pause{0, 20000000};
    for (int i = 0; i < 20; ++i) interrupted += nanosleep(&pause, nullptr) != 0 ? 1 : 0;
  });
  sleeper.join();
  sampler.stop();
  // A signal may arrive while the thread enters the call: one in some hundreds. A signal a tick
  // would interrupt all.
  CHECK(interrupted < 10);
}

TEST(a_handler_of_the_program_is_called_and_restored) {
  struct sigaction theirs {};
  theirs.sa_handler = &count_urgent;
  sigaction(SIGURG, &theirs, nullptr);
  fastprof::NativeSampler sampler;
  const std::string problem = sampler.start();
  if (problem.empty()) {
    planted_one(50000000);
    // A signal that arrives while another one of its number is pending is lost, as any is.
    for (int i = 0; i < 100 && urgent.load() == 0; ++i) raise(SIGURG);
    CHECK(urgent.load() > 0);
    sampler.stop();
  }
  CHECK(action_now().sa_handler == &count_urgent);
  signal(SIGURG, SIG_DFL);
}

TEST(a_thread_that_blocks_the_signal_is_counted) {
  fastprof::NativeSampler sampler;
  START(sampler);
  std::thread blocking([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    planted_spin(200000000);
  });
  blocking.join();
  const fastprof::NativeSamples found = sampler.stop();
#if !FASTPROF_TSAN
  CHECK(found.counts.missed > 0);
#endif
  CHECK(action_now().sa_handler == SIG_DFL);
}

TEST(forked_children_run_nothing_and_may_sample) {
  fastprof::NativeSampler sampler;
  START(sampler);
  planted_one(20000000);
  const pid_t child = fork();
  if (child == 0) {
    if (!sampler.stop().samples.empty()) _exit(1);
#if FASTPROF_TSAN  // takes a thread of the child for the one of the parent that had its address
    _exit(7);
#endif
    fastprof::NativeSampler own;
    if (!own.start().empty()) _exit(2);
    planted_one(50000000);
    _exit(own.stop().counts.ticks > 0 ? 7 : 3);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 7);
  CHECK(!sampler.stop().samples.empty());
}

TEST(two_samplers_at_once) {
  fastprof::NativeSampler first;
  fastprof::NativeSampler second;
  START(first);
  START(second);
  planted_three(50000000);
  first.stop();
  planted_one(50000000);
  const fastprof::NativeSamples found = second.stop();
  CHECK(found.counts.stacks > 0);
  CHECK(action_now().sa_handler == SIG_DFL);
}

}  // namespace
