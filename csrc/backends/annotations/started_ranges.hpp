// SPDX-License-Identifier: Apache-2.0
// Table of ranges that a program has started and not ended yet, by number: NVTX's start/end ranges
// and ITT's overlapped tasks, which may end on another thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

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
  // Makes the lock usable in a forked child, whose parent may have held it on another thread, and
  // discards the parent's ranges.
  void renew_in_child() noexcept {
    new (&lock_) std::mutex;
    ranges_.clear();
  }

  // Keeps a range; returns its number, never 0. 0 if memory is exhausted: the range stays open.
  uint64_t add(const AsyncHandle& range) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    const uint64_t number = ++last_;
    return put(number, range) ? number : 0;
  }
  // Keeps a range under a number that the program chose; replaces an equal one.
  void add_as(uint64_t number, const AsyncHandle& range) noexcept {
    const std::lock_guard<std::mutex> hold(lock_);
    put(number, range);
  }
  // Removes a range; an empty handle for an unknown number.
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
