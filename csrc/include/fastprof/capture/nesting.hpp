// SPDX-License-Identifier: Apache-2.0
// Nesting: assigns parents to the ranges of one track, given in begin order.
//
// The rule, both for captured data (raw ticks) and for hand-made lists (nanoseconds): the parent of
// a range is the latest earlier range of its track, in begin order, that contains it:
//   parent.begin <= begin < parent.end  and  end <= parent.end.
// Consequences:
//   - a range that begins where another ends is not its child (begin == parent.end);
//   - identical ranges nest, the first in order outermost; two empty ranges at one stamp are
//     siblings;
//   - of two partly overlapping ranges neither is the other's child, and a range inside both
//     belongs to the later one;
//   - an open range (end = kOpenEnd) contains everything that begins after it, so it may be a
//     parent; a range left open inside a closed range is not its child, because it outlives it.
//     assemble() therefore ends such a range with its parent (closing_end), as PyTorch does;
//   - on raw ticks, which increase strictly per thread, a range of 0 ns after conversion that
//     touches its parent's end keeps its parent, because its begin was stamped before that end.
// One pass with a stack is exact and O(n): a range popped because of a partial overlap can never be
// the parent of a later range, since a later range inside both is inside the later of the two,
// which stays on the stack.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// End of a range that is still open.
template <class Stamp>
constexpr Stamp kOpenEnd = std::numeric_limits<Stamp>::max();

// State of the pass over one track. Call with rows in begin order; each call is O(1) amortised. Not
// thread-safe; reuse an object to keep its memory. Stamp is int64_t (nanoseconds) or uint64_t
// (ticks).
template <class Stamp>
class NestingWalk {
 public:
  // Starts a new track.
  void reset() noexcept { stack_.clear(); }

  // Adds range [begin, end) of row `row`; returns the row of its parent, or -1. `begin` must not be
  // less than that of an earlier range.
  int32_t enter(int32_t row, Stamp begin, Stamp end) {
    while (!stack_.empty() && (stack_.back().end <= begin || end > stack_.back().end)) {
      stack_.pop_back();
    }
    const int32_t parent = stack_.empty() ? -1 : stack_.back().row;
    stack_.push_back({end, row});
    return parent;
  }

  // Returns the end of the innermost range around `begin` for which ends(row) is true; kOpenEnd if
  // none has an end. For a range that was never left.
  template <class Ends>
  Stamp closing_end(Stamp begin, Ends&& ends) const {
    for (size_t i = stack_.size(); i-- > 0;)
      if (stack_[i].end > begin && ends(stack_[i].row)) return stack_[i].end;
    return kOpenEnd<Stamp>;
  }

  // Returns the row of the innermost range open at `begin`, or -1. For rows that cannot be parents.
  int32_t at(Stamp begin) noexcept {
    while (!stack_.empty() && stack_.back().end <= begin) stack_.pop_back();
    return stack_.empty() ? -1 : stack_.back().row;
  }

 private:
  struct Open {
    Stamp end;
    int32_t row;
  };
  std::vector<Open> stack_;
};

FASTPROF_NAMESPACE_END
