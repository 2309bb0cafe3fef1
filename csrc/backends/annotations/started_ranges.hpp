// SPDX-License-Identifier: Apache-2.0
// StartedRanges: table, by number, of the ranges that a program has started and not ended: NVTX's
// start/end ranges and ITT's overlapped tasks, which may end on another thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "fastprof/base/child_handler.hpp"
#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/range.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// Any thread. Never destroyed, because programs end ranges after static destructors have run.
class StartedRanges {
 public:
  static StartedRanges& of_process() noexcept {
    static StartedRanges& all = *new StartedRanges;
    return all;
  }
  // Registers a handler for forked children, which discards the parent's ranges. Another thread of
  // the parent may have held the lock and been changing the table, so the table is leaked. Later
  // calls do nothing.
  static void watch_forks() noexcept {
    static ChildHandler handler;
    handler.install(
        [] {
          renew_lock(of_process().lock_);
          new (&of_process().ranges_) std::unordered_map<uint64_t, AsyncHandle>;
        },
        of_process());
  }

  // Stores a range. Returns its number; 0 if memory is exhausted: the range then never ends.
  uint64_t add(const AsyncHandle& range) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    const uint64_t number = ++last_;
    return put(number, range) ? number : 0;
  }
  // Stores a range under a number chosen by the program, replacing a range with the same number.
  void add_as(uint64_t number, const AsyncHandle& range) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    put(number, range);
  }
  // Removes and returns a range; an empty handle if the number is unknown.
  AsyncHandle take(uint64_t number) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    const auto found = ranges_.find(number);
    if (found == ranges_.end()) return {};
    const AsyncHandle range = found->second;
    ranges_.erase(found);
    return range;
  }

 private:
  bool put(uint64_t number, const AsyncHandle& range) noexcept {
    try {
      ranges_[number] = range;
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  std::mutex lock_;
  uint64_t last_ = 0;
  std::unordered_map<uint64_t, AsyncHandle> ranges_;
};

}  // namespace annotations
FASTPROF_NAMESPACE_END
