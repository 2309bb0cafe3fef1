// SPDX-License-Identifier: Apache-2.0
// SliceStacks: pairs begins and ends of slices on each track, with the rules of Perfetto's trace
// processor.
//
// An end closes the innermost open slice of its track; if the end has a name or category, the
// innermost one that matches. Open slices inside the closed one have lost their ends and end with
// it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_proto {

constexpr int64_t kNoRow = -1;

// Ends of rows, for the caller to store.
struct Closings {
  Column<uint32_t> rows;
  Column<int64_t> end_ns;
  Column<uint8_t> finished;
};

// A slice that is open. name, category: codes of texts, for ends that have them.
struct OpenSlice {
  uint32_t row, name, category;
  bool stays_unfinished;
  int64_t start_ns;
};

// Events must arrive in time order on each track; otherwise in_order() is false and pairs may be
// wrong. With is_sorted, events are kept and paired by finish(), in time order. Tracks are numbers
// from 0, given by the caller.
class SliceStacks {
 public:
  // empty: code of the empty text.
  SliceStacks(bool is_sorted, uint32_t empty) : is_sorted_(is_sorted), empty_(empty) {}

  void begin(uint32_t track, int64_t time_ns, const OpenSlice& slice) {
    if (is_sorted_) {
      log_.push_back(Logged{time_ns, track, slice, false, 0, 0, 0});
      return;
    }
    open(track, time_ns, slice);
  }

  // Closes a slice. Returns its row, or kNoRow if there is none or it is paired later, by finish().
  // tag: identifies the pair in tagged() then; 0: none.
  int64_t end(uint32_t track, int64_t time_ns, uint32_t name, uint32_t category, uint32_t tag) {
    if (is_sorted_) {
      log_.push_back(Logged{time_ns, track, OpenSlice{}, true, name, category, tag});
      return kNoRow;
    }
    return close(track, time_ns, name, category);
  }

  // Pairs the kept events; slices still open end at end_ns and stay unfinished.
  void finish(int64_t end_ns) {
    std::stable_sort(log_.begin(), log_.end(),
                     [](const Logged& a, const Logged& b) { return a.time_ns < b.time_ns; });
    for (const Logged& event : log_) {
      if (!event.is_end) {
        open(event.track, event.time_ns, event.slice);
      } else {
        const int64_t row = close(event.track, event.time_ns, event.name, event.category);
        if (event.tag != 0 && row != kNoRow) {
          tagged_.push_back(event.tag);
          tagged_rows_.push_back(static_cast<uint32_t>(row));
        }
      }
    }
    log_ = {};
    for (Stack& stack : stacks_)
      for (const OpenSlice& slice : stack.slices) put(slice, end_ns, false);
    stacks_ = {};
  }

  bool in_order() const noexcept { return in_order_; }
  Closings& closings() noexcept { return closings_; }
  uint64_t ends_without_begin() const noexcept { return ends_without_begin_; }
  uint64_t lost_ends() const noexcept { return lost_ends_; }
  const std::vector<uint32_t>& tagged() const noexcept { return tagged_; }
  const std::vector<uint32_t>& tagged_rows() const noexcept { return tagged_rows_; }
  size_t bytes() const noexcept {
    return stacks_.capacity() * sizeof(Stack) + open_slices_ * 2 * sizeof(OpenSlice) +
           log_.capacity() * sizeof(Logged) + closings_.rows.capacity() * 13;
  }

 private:
  struct Stack {
    std::vector<OpenSlice> slices;
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    bool has_begun = false;
  };
  struct Logged {
    int64_t time_ns;
    uint32_t track;
    OpenSlice slice;
    bool is_end;
    uint32_t name, category, tag;
  };

  void open(uint32_t track, int64_t time_ns, const OpenSlice& slice) {
    if (track >= stacks_.size()) stacks_.resize(track + 1);
    Stack& stack = stacks_[track];
    if (time_ns < stack.last_ns) in_order_ = false;
    stack.last_ns = time_ns;
    stack.has_begun = true;
    stack.slices.push_back(slice);
    ++open_slices_;
  }

  int64_t close(uint32_t track, int64_t time_ns, uint32_t name, uint32_t category) {
    if (track >= stacks_.size() || !stacks_[track].has_begun) {
      ++ends_without_begin_;
      return kNoRow;
    }
    Stack& stack = stacks_[track];
    if (time_ns < stack.last_ns) in_order_ = false;
    stack.last_ns = time_ns;
    std::vector<OpenSlice>& slices = stack.slices;
    size_t depth = slices.size();
    while (depth > 0 && !matches(slices[depth - 1], name, category)) --depth;
    if (depth == 0) {
      ++ends_without_begin_;
      return kNoRow;
    }
    const uint32_t row = slices[depth - 1].row;
    put(slices[depth - 1], time_ns, true);
    for (size_t inner = depth; inner < slices.size(); ++inner) put(slices[inner], time_ns, true);
    lost_ends_ += slices.size() - depth;
    open_slices_ -= slices.size() - depth + 1;
    slices.resize(depth - 1);
    return row;
  }

  bool matches(const OpenSlice& slice, uint32_t name, uint32_t category) const noexcept {
    return (name == empty_ || slice.name == empty_ || slice.name == name) &&
           (category == empty_ || slice.category == empty_ || slice.category == category);
  }

  void put(const OpenSlice& slice, int64_t end_ns, bool is_finished) {
    closings_.rows.push_back(slice.row);
    closings_.end_ns.push_back(end_ns < slice.start_ns ? slice.start_ns : end_ns);
    closings_.finished.push_back(is_finished && !slice.stays_unfinished ? 1 : 0);
  }

  bool is_sorted_;
  uint32_t empty_;
  bool in_order_ = true;
  std::vector<Stack> stacks_;  // by track
  size_t open_slices_ = 0;
  std::vector<Logged> log_;
  Closings closings_;
  uint64_t ends_without_begin_ = 0;
  uint64_t lost_ends_ = 0;
  std::vector<uint32_t> tagged_, tagged_rows_;
};

}  // namespace trace_proto
FASTPROF_NAMESPACE_END
