// SPDX-License-Identifier: Apache-2.0
// How samplers get the native stack of a thread: a thread that waits is copied as it stands, one
// that runs is asked by a signal (ThreadStops) unless it blocks that signal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/checked_copy.hpp"
#include "fastprof/platform/thread_stops.hpp"
#include "fastprof/platform/threads.hpp"

FASTPROF_NAMESPACE_BEGIN

// Threads of this name's beginning are fastprof's own, and are not sampled.
inline bool is_own_thread_name(const std::string& name) noexcept {
  return name.compare(0, 9, "fastprof-") == 0;
}

// How long a sampler with this period waits for the answers to its requests.
inline int64_t longest_answer_ns(int64_t period_ns) noexcept {
  return std::clamp(period_ns, int64_t{500000}, int64_t{5000000});
}

// Copies the stack of a thread that is off the CPU into the buffer; false if it runs. The copy
// belongs together only if the thread's CPU time has not changed since before the call.
inline bool copy_waiting_stack(int pid, uint32_t tid, const platform::StackExtent& extent,
                               std::vector<char>* buffer, platform::CopiedStack* stack) {
  if (!platform::read_waiting_stack(tid, &stack->at)) return false;
  buffer->resize(platform::ThreadStops::kSlotBytes);
  stack->bytes = buffer->data();
  stack->size_bytes = platform::copy_stack(
      pid, stack->at.sp, extent.above(stack->at.sp, buffer->size()), buffer->data());
  return true;
}

// Whether a thread blocks the signal of the requests, as far as missed requests tell. A handler of
// any signal, ours among them, may block it as well; but briefly, if one counts CPU time.
class BlockedRequests {
 public:
  // True: the thread is not to be asked at this tick.
  bool hold_at(uint64_t tick) const noexcept { return until_tick_ > tick; }

  void answered() noexcept { misses_ = 0; }

  // A request at this tick was withdrawn (or could not be made: blocks_signal is false).
  void missed(bool blocks_signal, int64_t cpu_ns, uint64_t tick) noexcept {
    misses_ = blocks_signal ? misses_ + 1 : 0;
    if (misses_ == 1) first_cpu_ns_ = cpu_ns;
    if (misses_ < kMisses || cpu_ns - first_cpu_ns_ < kCpuNs) return;
    misses_ = 0;
    until_tick_ = tick + kTicks;
  }

 private:
  static constexpr uint32_t kMisses = 4;
  static constexpr int64_t kCpuNs = 2000000;
  static constexpr uint64_t kTicks = 256;

  uint32_t misses_ = 0;  // in a row
  int64_t first_cpu_ns_ = 0;
  uint64_t until_tick_ = 0;
};

FASTPROF_NAMESPACE_END
