// SPDX-License-Identifier: Apache-2.0
// Nesting: the one tree kernel. It turns begin-ordered ranges of one track into parent indices;
// self times follow.
//
// The rule, for captured data (raw ticks) and for hand-made lists (nanoseconds) alike: the parent
// of a range is the innermost earlier range of its track that contains it, that is the latest one
// in begin order with
//   parent.begin <= begin < parent.end  and  end <= parent.end.
// It follows that
//   - a range that begins where another ends is not its child (begin == parent.end);
//   - identical ranges nest, the first in order outermost; two empty ranges at one stamp are
//   siblings;
//   - of two ranges that overlap partly neither is the other's child, and what lies inside both
//   belongs to the later;
//   - an open range (end = kOpenEnd) contains all that begins after it, so it may
//     be a parent; a range left open inside one that was closed is not that one's child: it
//     outlives it;
//   - on raw ticks, which are strict per thread, a range that is 0 ns long after conversion and
//   touches its parent's
//     end keeps its parent, because its begin was stamped before its parent's end.
// A range popped for a partial overlap can never contain a later one that its successor does not
// contain too: any later range inside both is inside the later of the two. So one pass over a stack
// is exact and O(n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// The end of a range that is still open.
template <class Stamp>
constexpr Stamp kOpenEnd = std::numeric_limits<Stamp>::max();

// What becomes of rows that cannot be parents (marks, counters, async ranges, ranges ended on
// another thread).
enum class NonRanges : uint8_t {
  attach,  // parent = innermost range open at their begin (captured data)
  orphan,  // no parent (hand-made lists: only synchronous ranges nest)
};

// The walk over one track. Feed rows in begin order; each call costs O(1) amortised. Not
// thread-safe; reuse it to keep its memory. Stamp is int64_t (nanoseconds) or uint64_t (ticks).
template <class Stamp>
class NestingWalk {
 public:
  // Starts a new track.
  void reset() noexcept { stack_.clear(); }

  // A range [begin, end) of row `row`. Returns the row of its parent, or -1. `begin` must not be
  // below an earlier one.
  int32_t enter(int32_t row, Stamp begin, Stamp end) {
    while (!stack_.empty() && (stack_.back().end <= begin || end > stack_.back().end)) {
      stack_.pop_back();
    }
    const int32_t parent = stack_.empty() ? -1 : stack_.back().row;
    stack_.push_back({end, row});
    return parent;
  }

  // The row of the innermost range that is open at `begin`, or -1, for a row that cannot be a
  // parent itself.
  int32_t at(Stamp begin) noexcept {
    while (!stack_.empty() && stack_.back().end <= begin) stack_.pop_back();
    return stack_.empty() ? -1 : stack_.back().row;
  }

  // Number of ranges that enclose the row fed last, itself included when it was a range.
  size_t depth() const noexcept { return stack_.size(); }

 private:
  struct Open {
    Stamp end;
    int32_t row;
  };
  std::vector<Open> stack_;
};

// Fills parent[0, count) for one track whose rows are in begin order. is_range may be null: all
// rows are ranges. Row numbers are first_row + index, so a track in the middle of a capture can be
// done in place. At most 2^31 - 1 rows.
template <class Stamp>
inline void nest_ordered(size_t count, const Stamp* begin, const Stamp* end,
                         const uint8_t* is_range, int32_t* parent, NestingWalk<Stamp>& walk,
                         int32_t first_row = 0, NonRanges non_ranges = NonRanges::attach) {
  walk.reset();
  for (size_t i = 0; i < count; ++i) {
    if (is_range == nullptr || is_range[i] != 0) {
      parent[i] = walk.enter(first_row + static_cast<int32_t>(i), begin[i], end[i]);
    } else {
      parent[i] = non_ranges == NonRanges::attach ? walk.at(begin[i]) : -1;
    }
  }
}

// Fills parent[0, count) for a list in any order: rows nest within their group (thread and node,
// say; null: one group). Order is (group, start, -end), ties in list order, so of identical ranges
// the first in the list is outermost. Rows that are not ranges get no parent. O(n log n), O(n) when
// the list is in order already.
inline void nest_list(size_t count, const int64_t* start_ns, const int64_t* end_ns,
                      const uint64_t* group, const uint8_t* is_range, int32_t* parent) {
  struct Key {
    uint64_t group;
    int64_t start, end;
    int32_t row;
  };
  std::vector<Key> keys;
  keys.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    parent[i] = -1;
    if (is_range == nullptr || is_range[i] != 0) {
      keys.push_back(
          {group == nullptr ? 0 : group[i], start_ns[i], end_ns[i], static_cast<int32_t>(i)});
    }
  }
  const auto before = [](const Key& a, const Key& b) noexcept {
    if (a.group != b.group) return a.group < b.group;
    if (a.start != b.start) return a.start < b.start;
    if (a.end != b.end) return a.end > b.end;
    return a.row < b.row;
  };
  if (!std::is_sorted(keys.begin(), keys.end(), before))
    std::sort(keys.begin(), keys.end(), before);
  NestingWalk<int64_t> walk;
  uint64_t current = 0;
  for (const Key& key : keys) {
    if (key.group != current) walk.reset();
    current = key.group;
    parent[key.row] = walk.enter(key.row, key.start, key.end);
  }
}

// self[i] = (end - start) minus the same of its direct children that are ranges; never clamped.
// Rows that are not ranges get 0 and take nothing from their parent. Rows may be in any order.
inline void self_times(size_t count, const int64_t* start_ns, const int64_t* end_ns,
                       const int32_t* parent, const uint8_t* is_range, int64_t* self_ns) {
  const auto counts = [is_range](size_t i) noexcept {
    return is_range == nullptr || is_range[i] != 0;
  };
  for (size_t i = 0; i < count; ++i) self_ns[i] = counts(i) ? end_ns[i] - start_ns[i] : 0;
  for (size_t i = 0; i < count; ++i) {
    if (parent[i] >= 0 && counts(i)) {
      self_ns[static_cast<size_t>(parent[i])] -= end_ns[i] - start_ns[i];
    }
  }
}

FASTPROF_NAMESPACE_END
