// SPDX-License-Identifier: Apache-2.0
// RangeStacks: nests the ranges of threads and tasks as they are read, so that each range is added
// to NameTotals once it has ended, with its self time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/name_totals.hpp"
#include "fastprof/recorder/state/chunk.hpp"
#include "fastprof/recorder/store/calibration.hpp"

FASTPROF_NAMESPACE_BEGIN

// Ranges of one thread or task that have been read and whose end has not.
struct RangeStack {
  struct Open {
    // Built in place: a copy of words just stored would wait for the store.
    Open(uint64_t began, const Slot* record, uint32_t name) noexcept
        : begin(began), slot(record), row(name) {}
    uint64_t begin;
    const Slot* slot;  // its end is stored there
    int64_t children_ns = 0;
    uint32_t row;
  };
  std::vector<Open> open;     // outermost first
  std::vector<Open> outlive;  // have outlived the range around them: no children any more
  uint64_t left_at = 0;       // when its task was suspended; 0: it runs, or is a thread
};

// Follows the rule of capture/nesting.hpp, except that the self time of a range which is ended by
// another thread, or outlives the range around it, is 0. Not thread-safe.
class RangeStacks {
 public:
  explicit RangeStacks(NameTotals& totals) : totals_(totals) {}

  // Sets the clock of what follows. It must live until the next call.
  void set_clock(TickConverter* clock) noexcept { clock_ = clock; }

  // The stack of a track or task, by id. The reference is valid until forget_empty().
  RangeStack& stack_of(uint32_t id) { return stacks_[id]; }

  // A range was read. Calls for one stack are in the order of begins.
  FASTPROF_ALWAYS_INLINE void enter(RangeStack& stack, const Slot* slot, uint64_t begin,
                                    uint32_t row) {
    leave_until(stack, begin);
    if (FASTPROF_UNLIKELY(stack.open.size() >= kMaxOpen)) {
      stack.open.erase(stack.open.begin());
      ++unfinished;
    }
    stack.open.emplace_back(begin, slot, row);
  }

  // Ends the innermost ranges that had ended at `at`, when all that began before has been read.
  FASTPROF_ALWAYS_INLINE void leave_until(RangeStack& stack, uint64_t at) {
    while (!stack.open.empty()) {
      const RangeStack::Open& last = stack.open.back();
      const uint64_t end = load_acquire(&last.slot->end);
      if (end < last.begin || end > at) return;
      const int64_t ns = duration_ns(last.begin, end);
      totals_.add(last.row, ns, ns - last.children_ns);
      ++ranges;
      stack.open.pop_back();
      add_to_parent(stack, stack.open.size(), end, ns);
    }
  }

  // A task's stack is left and entered again.
  static void suspend(RangeStack& stack, uint64_t at) noexcept { stack.left_at = at; }
  void resume(RangeStack& stack, uint64_t at) {
    const uint64_t from = std::exchange(stack.left_at, uint64_t{0});
    if (from == 0 || from >= at) return;
    leave_until(stack, from);
    if (!stack.open.empty()) stack.open.back().children_ns += duration_ns(from, at);
  }

  // A range of this stack was ended by a record of its own. Returns false if there is none that
  // began then.
  bool end_elsewhere(RangeStack& stack, uint64_t begin, uint64_t end) {
    for (std::vector<RangeStack::Open>* list : {&stack.open, &stack.outlive})
      for (size_t i = list->size(); i-- > 0;) {
        const RangeStack::Open each = (*list)[i];
        if (each.begin != begin) continue;
        if (i != 0 && list == &stack.open) (*list)[i - 1].children_ns += each.children_ns;
        totals_.add(each.row, duration_ns(begin, end), 0);
        ++ranges;
        list->erase(list->begin() + static_cast<ptrdiff_t>(i));
        return true;
      }
    return false;
  }
  bool end_elsewhere(uint32_t id, uint64_t begin, uint64_t end) {
    const auto own = stacks_.find(id);
    if (own != stacks_.end() && end_elsewhere(own->second, begin, end)) return true;
    for (auto& [other, stack] : stacks_)
      if (other != id && end_elsewhere(stack, begin, end)) return true;
    return false;
  }

  // Ends what had ended at `horizon`, up to which everything of this stack has been read.
  void settle(RangeStack& stack, uint64_t horizon) {
    leave_until(stack, horizon);
    // Below an open range: what is above has outlived it.
    for (size_t i = stack.open.size(); i-- > 0;) {
      const RangeStack::Open each = stack.open[i];
      const uint64_t end = load_acquire(&each.slot->end);
      if (end < each.begin || end > horizon) continue;
      for (size_t above = i + 1; above < stack.open.size(); ++above)
        stack.outlive.push_back(stack.open[above]);
      stack.open.erase(stack.open.begin() + static_cast<ptrdiff_t>(i), stack.open.end());
      const int64_t ns = duration_ns(each.begin, end);
      totals_.add(each.row, ns, ns - each.children_ns);
      ++ranges;
      add_to_parent(stack, i, end, ns);
    }
    for (size_t i = stack.outlive.size(); i-- > 0;) {
      const RangeStack::Open each = stack.outlive[i];
      const uint64_t end = load_acquire(&each.slot->end);
      if (end < each.begin || end > horizon) continue;
      totals_.add(each.row, duration_ns(each.begin, end), 0);
      ++ranges;
      stack.outlive.erase(stack.outlive.begin() + static_cast<ptrdiff_t>(i));
    }
    while (stack.outlive.size() > kMaxOutlive) {  // probably never left
      stack.outlive.erase(stack.outlive.begin());
      ++unfinished;
    }
  }

  template <class Visit>
  void each_stack(Visit&& visit) {
    for (auto& [id, stack] : stacks_) visit(id, stack);
  }

  // Forgets threads and tasks without open ranges.
  void forget_empty() {
    for (auto at = stacks_.begin(); at != stacks_.end();)
      at = at->second.open.empty() && at->second.outlive.empty() ? stacks_.erase(at) : ++at;
  }

  uint64_t open() const noexcept {
    uint64_t count = 0;
    for (const auto& [id, stack] : stacks_) count += stack.open.size() + stack.outlive.size();
    return count;
  }

  FASTPROF_ALWAYS_INLINE int64_t duration_ns(uint64_t begin, uint64_t end) noexcept {
    // Stamps of two threads differ by up to 0.25 us.
    return FASTPROF_LIKELY(end > begin) ? clock_->duration_ns(begin, end) : 0;
  }

  uint64_t ranges = 0;      // added to the totals
  uint64_t unfinished = 0;  // given up, because too many were open

 private:
  static constexpr size_t kMaxOpen = 4096, kMaxOutlive = 64;

  // Adds a child's duration to the innermost of the first `size` ranges that contains its end.
  FASTPROF_ALWAYS_INLINE static void add_to_parent(RangeStack& stack, size_t size, uint64_t end,
                                                   int64_t ns) noexcept {
    while (size-- > 0) {
      RangeStack::Open& around = stack.open[size];
      const uint64_t until = load_acquire(&around.slot->end);
      if (until >= around.begin && until < end) continue;
      around.children_ns += ns;
      return;
    }
  }

  NameTotals& totals_;
  TickConverter* clock_ = nullptr;
  std::unordered_map<uint32_t, RangeStack> stacks_;
};

FASTPROF_NAMESPACE_END
