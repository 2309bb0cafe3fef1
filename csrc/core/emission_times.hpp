// SPDX-License-Identifier: Apache-2.0
// EmissionTimes: when this process emitted its ranges to NVTX's tool. If that tool hands NVTX's
// ranges back, as CUPTI's markers, these are rows already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {

// Any thread.
class EmissionTimes {
 public:
  // Never destroyed, as profiles may end while the process exits.
  static EmissionTimes& of_process() noexcept {
    static EmissionTimes& all = *new EmissionTimes;
    return all;
  }

  // Ticks of the recorder's clock. A second begin() without an end() does nothing.
  void begin(uint64_t ticks) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (!times_.empty() && times_.back().end == kOpen) return;
    if (times_.size() == kMaxTimes) times_.pop_front();
    times_.push_back({ticks, kOpen});
  }
  void end(uint64_t ticks) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    if (!times_.empty() && times_.back().end == kOpen) times_.back().end = ticks;
  }

  // Whether ranges were emitted then. Times before the last kMaxTimes emissions are forgotten.
  bool contains(uint64_t ticks) const noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    for (const Time& time : times_)
      if (ticks >= time.begin && ticks <= time.end) return true;
    return false;
  }

  // Makes the lock usable in a forked child.
  void renew_in_child() noexcept { renew_lock(lock_); }

 private:
  static constexpr size_t kMaxTimes = 256;
  static constexpr uint64_t kOpen = UINT64_MAX;
  struct Time {
    uint64_t begin, end;
  };
  mutable std::mutex lock_;
  std::deque<Time> times_;
};

}  // namespace range_tools
FASTPROF_NAMESPACE_END
