// SPDX-License-Identifier: Apache-2.0
// NativeSampler: samples the native stacks of all threads of this process.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/clock.hpp"
#include "fastprof/platform/thread_stops.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/sampling/fork_hold.hpp"
#include "fastprof/sampling/native_samples.hpp"
#include "fastprof/sampling/stack_requests.hpp"
#include "fastprof/sampling/stack_walker.hpp"

FASTPROF_NAMESPACE_BEGIN

struct SamplerOptions {
  double hz = 1000;               // ticks a second; 1 to 10000
  bool only_on_cpu = false;       // keep no samples of threads that wait
  uint32_t max_depth = 256;       // of a stack: innermost frames that are kept
  size_t max_nodes = 1u << 20;    // of 16 bytes and a place in a table
  size_t max_samples = 1u << 20;  // runs of equal samples, of 40 bytes
};

// Samples between start() and stop(), in any number of threads, which may be born and end
// meanwhile. A thread on a CPU copies its stack in a handler of SIGURG; the sampling thread finds
// the frames. Threads that wait are read without a signal, so that their system calls are not
// interrupted. In a forked child nothing runs, and stop() returns nothing. Use from one thread.
//
//   fastprof::NativeSampler sampler;
//   if (const std::string problem = sampler.start(); !problem.empty()) std::puts(problem.c_str());
//   work();
//   sampler.stop().write_collapsed("work.folded");
class NativeSampler {
 public:
  explicit NativeSampler(const SamplerOptions& options = {}) : options_(options) {
    options_.hz = std::clamp(options_.hz, 1.0, 10000.0);
    options_.max_depth = std::max(options_.max_depth, 1u);
    frames_.resize(options_.max_depth);
  }
  ~NativeSampler() { end(); }
  NativeSampler(const NativeSampler&) = delete;
  NativeSampler& operator=(const NativeSampler&) = delete;

  // Begins to sample, and forgets earlier samples. Returns why it cannot; empty: it samples.
  [[nodiscard]] std::string start() {
    if (thread_ != nullptr && pid_ == ::getpid()) return "the sampler runs: call stop() first";
    if (pid_ != 0 && pid_ != ::getpid()) forget_in_child();
    pid_ = ::getpid();
    if (!install_fork_hold()) return "no memory";
    std::string problem = stops_.begin();
    if (!problem.empty()) return problem;
    found_ = NativeSamples();
    found_.hz = options_.hz;
    known_.clear();
    children_.clear();
    ends_ = false;
    // Signals of the program are for its own threads.
    sigset_t all;
    sigset_t former;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&all, fault);
    ::pthread_sigmask(SIG_SETMASK, &all, &former);
    if (::pthread_create(&handle_, nullptr, &NativeSampler::run, this) == 0)
      thread_ = &handle_;
    else
      problem = "the sampling thread could not be started";
    ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
    if (!problem.empty()) stops_.end();
    return problem;
  }

  // Ends sampling and returns what was found; a second call returns nothing.
  NativeSamples stop() {
    end();
    return std::exchange(found_, NativeSamples());
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Known {
    uint32_t thread = 0;
    int64_t cpu_ns = 0;
    uint64_t tick = 0;    // of the last sample
    uint64_t sample = 0;  // index of the last one, plus 1
    int32_t node = -1;
    bool is_current = false;
    bool is_own = false;  // a thread of fastprof
    BlockedRequests blocked;
    uint64_t seen = 0;  // tick at which it was listed
    platform::StackExtent extent;
  };
  struct Wanted {
    uint32_t tid;
    Known* known;
    bool on_cpu;
  };
  struct NodeHash {
    size_t operator()(const std::pair<int32_t, uint64_t>& key) const noexcept {
      return static_cast<size_t>((key.second ^ uint64_t{static_cast<uint32_t>(key.first)} << 32) *
                                     0x9E3779B97F4A7C15u >>
                                 7);
    }
  };

  static void* run(void* self) {
    platform::name_this_thread("fastprof-sample");
    static_cast<NativeSampler*>(self)->run_ticks();
    return nullptr;
  }

  void end() {
    if (pid_ != ::getpid()) return forget_in_child();
    if (thread_ == nullptr) return;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      ends_ = true;
    }
    changed_.notify_all();
    ::pthread_join(handle_, nullptr);
    thread_ = nullptr;
    stops_.end();
  }

  void forget_in_child() noexcept {
    if (thread_ == nullptr) return;
    thread_ = nullptr;
    stops_.forget();
    new (&lock_) std::mutex;
    new (&changed_) std::condition_variable;
    new (&found_) NativeSamples;  // leaked: the sampling thread may have been changing them
    new (&known_) decltype(known_);
    new (&children_) decltype(children_);
  }

  void run_ticks() {
#if FASTPROF_EXCEPTIONS
    try {
      sample_until_end();
    } catch (const std::bad_alloc&) {
      ++found_.counts.no_room;  // and no later samples
    }
#else
    sample_until_end();
#endif
    platform::read_thread_cpu_ns(platform::thread_id(), &found_.counts.cpu_ns);
  }

  void sample_until_end() {
    const auto period_ns = static_cast<int64_t>(1e9 / options_.hz);
    const Clock::time_point start = Clock::now();
    const int64_t start_ns = platform::monotonic_ns();
    auto random = static_cast<uint64_t>(start_ns);
    int64_t grid_ns = start_ns;
    last_tick_ns_ = start_ns;
    for (;;) {
      grid_ns += period_ns;
      const int64_t now_ns = platform::monotonic_ns();
      if (now_ns > grid_ns) {
        const int64_t missed = (now_ns - grid_ns) / period_ns + 1;
        found_.counts.missed_ticks += static_cast<uint64_t>(missed);
        grid_ns += missed * period_ns;
      }
      // Within half a period: a program's own period cannot stay in step with the ticks.
      random = random * 6364136223846793005u + 1442695040888963407u;
      const int64_t at_ns =
          grid_ns - static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(period_ns)) / 2;
      std::unique_lock<std::mutex> hold(lock_);
      if (changed_.wait_until(hold, start + std::chrono::nanoseconds(at_ns - start_ns),
                              [this] { return ends_; }))
        return;
      hold.unlock();
      tick(platform::monotonic_ns(), period_ns);
    }
  }

  void tick(int64_t now_ns, int64_t period_ns) {
    const ForkHold hold;
    const uint64_t number = ++found_.counts.ticks;
    platform::list_threads(&tids_);
    walker_.refresh();
    size_t running = 0;
    wanted_.clear();
    for (const uint32_t tid : tids_) {
      const auto [place, is_new] = known_.emplace(tid, Known());
      Known& known = place->second;
      int64_t cpu_ns = 0;
      if (!platform::read_thread_cpu_ns(tid, &cpu_ns)) continue;  // it has ended
      // An id that was not seen at the last tick, or whose clock went back, is another thread's.
      if (is_new || cpu_ns < known.cpu_ns) begin_thread(tid, &known);
      known.seen = number;
      if (known.is_own) continue;
      const int64_t used_ns = cpu_ns - known.cpu_ns;
      known.cpu_ns = cpu_ns;
      int64_t later_ns = cpu_ns;
      if (used_ns != 0) platform::read_thread_cpu_ns(tid, &later_ns);
      const bool on_cpu = later_ns != cpu_ns || 2 * used_ns >= now_ns - last_tick_ns_;
      const Wanted wanted{tid, &known, on_cpu};
      if ((used_ns == 0 && known.is_current) || read_off_cpu(wanted)) {
        add(known, on_cpu, now_ns, number);
      } else if (known.blocked.hold_at(number)) {
        known.is_current = false;
        ++found_.counts.missed;
      } else {
        wanted_.push_back(wanted);
        ++running;
      }
    }
    for (size_t first = 0; first < running; first += platform::ThreadStops::kSlots)
      sample_running(first, std::min(running - first, size_t{platform::ThreadStops::kSlots}),
                     now_ns, period_ns, number);
    last_tick_ns_ = now_ns;
    if (number % 1024 != 0) return;
    for (auto at = known_.begin(); at != known_.end();)
      at = at->second.seen == number ? std::next(at) : known_.erase(at);
  }

  void begin_thread(uint32_t tid, Known* known) {
    *known = Known();
    std::string name = platform::thread_name_of(tid);
    known->is_own = is_own_thread_name(name);
    if (known->is_own) return;
    known->thread = static_cast<uint32_t>(found_.threads.size());
    found_.threads.push_back({tid, name.empty() ? "thread " + std::to_string(tid) : name});
  }

  bool read_off_cpu(const Wanted& wanted) {
    int64_t before_ns = 0;
    int64_t after_ns = 0;
    platform::CopiedStack stack{};
    if (!platform::read_thread_cpu_ns(wanted.tid, &before_ns) ||
        !copy_waiting_stack(pid_, wanted.tid, wanted.known->extent, &buffer_, &stack) ||
        !platform::read_thread_cpu_ns(wanted.tid, &after_ns) || before_ns != after_ns)
      return false;
    walk(stack, wanted.known);
    return true;
  }

  // Requests the stacks of some of the wanted threads from themselves.
  void sample_running(size_t first, size_t count, int64_t now_ns, int64_t period_ns,
                      uint64_t number) {
    stops_.take_turn();
    uint64_t asked = 0;
    for (size_t i = 0; i < count; ++i) {
      const Wanted& wanted = wanted_[first + i];
      wanted.known->is_current = false;
      if (stops_.ask(i, wanted.tid, wanted.known->extent, false)) asked |= uint64_t{1} << i;
    }
    const int64_t deadline_ns = platform::monotonic_ns() + longest_answer_ns(period_ns);
    for (uint64_t left = asked; left != 0;) {
      const int slot = stops_.next(deadline_ns, false);
      if (slot < 0) break;
      const auto at = static_cast<size_t>(slot);
      stops_.release(at);
      if ((left >> at & 1) == 0) continue;  // an answer to a withdrawn request
      left &= ~(uint64_t{1} << at);
      const Wanted& wanted = wanted_[first + at];
      walk(stops_.stack(at), wanted.known);
      wanted.known->blocked.answered();
      add(*wanted.known, wanted.on_cpu, now_ns, number);
    }
    for (size_t i = 0; i < count; ++i) {
      const Wanted& wanted = wanted_[first + i];
      if (wanted.known->is_current) continue;
      const bool is_withdrawn = (asked >> i & 1) != 0 && stops_.cancel(i);
      if (read_off_cpu(wanted)) {  // it was preempted
        add(*wanted.known, wanted.on_cpu, now_ns, number);
        continue;
      }
      ++found_.counts.missed;
      wanted.known->blocked.missed(is_withdrawn && platform::blocks_stops(wanted.tid),
                                   wanted.known->cpu_ns, number);
    }
    stops_.end_turn();
  }

  void walk(const platform::CopiedStack& stack, Known* known) {
    const WalkedStack walked = walker_.walk(stack, frames_.data(), options_.max_depth);
    known->extent.update(walked.high, walked.cut, platform::ThreadStops::kSlotBytes);
    known->node = -1;
    known->is_current = true;
    ++found_.counts.stacks;
    if (walked.truncated) ++found_.counts.truncated;
    for (uint32_t i = walked.count; i-- != 0;) {
      const auto next = static_cast<int32_t>(found_.nodes.size());
      const auto key = std::make_pair(known->node, frames_[i]);
      auto place = children_.find(key);
      if (place == children_.end()) {
        if (found_.nodes.size() >= options_.max_nodes) {  // inner frames are left out
          ++found_.counts.no_room;
          return;
        }
        place = children_.emplace(key, next).first;
        found_.nodes.push_back({known->node, frames_[i]});
      }
      known->node = place->second;
    }
  }

  void add(Known& known, bool on_cpu, int64_t now_ns, uint64_t number) {
    if (options_.only_on_cpu && !on_cpu) return;
    const bool consecutive = known.sample != 0 && known.tick + 1 == number;
    known.tick = number;
    if (consecutive) {
      NativeSample& last = found_.samples[known.sample - 1];
      if (last.node == known.node && last.on_cpu == on_cpu) {
        last.last_ns = now_ns;
        ++last.count;
        return;
      }
    }
    known.sample = 0;
    if (found_.samples.size() >= options_.max_samples) {
      ++found_.counts.no_room;
      return;
    }
    found_.samples.push_back({now_ns, now_ns, known.thread, known.node, 1, on_cpu});
    known.sample = found_.samples.size();
  }

  SamplerOptions options_;
  platform::ThreadStops stops_;
  StackWalker walker_;
  NativeSamples found_;
  std::vector<uint64_t> frames_;
  std::vector<char> buffer_;
  std::vector<uint32_t> tids_;
  std::vector<Wanted> wanted_;
  std::unordered_map<uint32_t, Known> known_;  // by id of the kernel
  std::unordered_map<std::pair<int32_t, uint64_t>, int32_t, NodeHash> children_;
  int64_t last_tick_ns_ = 0;
  int pid_ = 0;

  pthread_t handle_{};
  pthread_t* thread_ = nullptr;  // null: it does not run
  std::mutex lock_;
  std::condition_variable changed_;
  bool ends_ = false;
};

FASTPROF_NAMESPACE_END
