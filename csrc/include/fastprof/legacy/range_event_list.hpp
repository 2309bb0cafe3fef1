// SPDX-License-Identifier: Apache-2.0
// RangeEventList: buffer of the records of one thread. Locked, because other threads append the
// pops of async ranges.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/legacy_event.hpp"

FASTPROF_NAMESPACE_BEGIN

// Records of one thread. Any thread.
class RangeEventList {
 public:
  // Appends a record. Any thread.
  void record(LegacyEvent&& event) {
    const std::lock_guard<std::mutex> guard(lock_);
    // Stored in fixed-size pieces, so that no record is moved while the program is being timed.
    if (pieces_.empty() || pieces_.back().size() == kPieceEvents) {
      pieces_.emplace_back();
      pieces_.back().reserve(kPieceEvents);
    }
    pieces_.back().push_back(std::move(event));
    ++size_;
  }

  // Moves the records out and leaves the list empty. Any thread.
  LegacyEventList consolidate() {
    std::vector<LegacyEventList> pieces;
    LegacyEventList moved;
    size_t size = 0;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      pieces.swap(pieces_);
      size = std::exchange(size_, 0);
    }
    if (pieces.size() == 1) return std::move(pieces.front());
    moved.reserve(size);
    for (LegacyEventList& piece : pieces) {
      for (LegacyEvent& event : piece) moved.push_back(std::move(event));
      LegacyEventList().swap(piece);  // limits the additional memory to one piece
    }
    return moved;
  }

  size_t size() const {
    const std::lock_guard<std::mutex> guard(lock_);
    return size_;
  }

 private:
  static constexpr size_t kPieceEvents = 1024;

  mutable std::mutex lock_;
  std::vector<LegacyEventList> pieces_;
  size_t size_ = 0;
};

FASTPROF_NAMESPACE_END
