// SPDX-License-Identifier: Apache-2.0
// RangeEventList: the buffer one thread's records go to. Async pops of other threads come here too,
// hence the lock.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/legacy_event.hpp"

FASTPROF_NAMESPACE_BEGIN

class RangeEventList {
 public:
  // Appends a record. Any thread.
  void record(LegacyEvent event) {
    const std::lock_guard<std::mutex> guard(lock_);
    if (events_.capacity() == 0) events_.reserve(kFirstCapacity);
    events_.push_back(std::move(event));
  }

  // Moves the records out; the list is empty afterwards. Any thread.
  LegacyEventList consolidate() {
    LegacyEventList moved;
    const std::lock_guard<std::mutex> guard(lock_);
    moved.swap(events_);
    return moved;
  }

  size_t size() const {
    const std::lock_guard<std::mutex> guard(lock_);
    return events_.size();
  }

 private:
  static constexpr size_t kFirstCapacity = 1024;

  mutable std::mutex lock_;
  LegacyEventList events_;
};

FASTPROF_NAMESPACE_END
