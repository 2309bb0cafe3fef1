// SPDX-License-Identifier: Apache-2.0
#include "core/rank_steps/step_sums.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rank_steps {
namespace {

struct Interval {
  int64_t start, end;
};

bool starts_before(const Interval& one, const Interval& other) {
  return one.start < other.start;
}

// A set of times as intervals by start. A union once sort() was called, if they came in any order.
class Union {
 public:
  void add(int64_t start, int64_t end) {
    if (end <= start) return;
    if (!intervals_.empty()) {
      Interval& last = intervals_.back();
      if (start >= last.start && start <= last.end) {
        last.end = std::max(last.end, end);
        return;
      }
      if (start < last.start) runs_.push_back(intervals_.size());
    }
    intervals_.push_back({start, end});
  }

  // Merges the ascending runs in which intervals were added: a few in most traces.
  void sort() {
    if (runs_.empty()) return;
    runs_.push_back(intervals_.size());
    runs_.insert(runs_.begin(), 0);
    Column<Interval> merged(intervals_.size());
    while (runs_.size() > 2) {
      std::vector<size_t> longer{0};
      for (size_t at = 0; at + 1 < runs_.size(); at += 2) {
        const size_t middle = runs_[at + 1];
        const size_t end = at + 2 < runs_.size() ? runs_[at + 2] : middle;
        const Interval* const data = intervals_.data();
        std::merge(data + runs_[at], data + middle, data + middle, data + end,
                   merged.data() + runs_[at], starts_before);
        longer.push_back(end);
      }
      intervals_.swap(merged);
      runs_ = std::move(longer);
    }
    runs_.clear();
    size_t kept = 0;
    for (const Interval each : intervals_) {
      if (kept != 0 && each.start <= intervals_[kept - 1].end)
        intervals_[kept - 1].end = std::max(intervals_[kept - 1].end, each.end);
      else
        intervals_[kept++] = each;
    }
    intervals_.resize(kept);
  }

  // Returns what another union does not cover; quick if this one is short.
  Union without(const Union& taken) const {
    Union found;
    auto cut = taken.intervals_.begin();
    for (const Interval each : intervals_) {
      int64_t from = each.start;
      cut = std::partition_point(cut, taken.intervals_.end(),
                                 [from](const Interval& other) { return other.end <= from; });
      for (auto at = cut; at != taken.intervals_.end() && at->start < each.end; ++at) {
        found.add(from, at->start);
        from = std::max(from, at->end);
      }
      found.add(from, each.end);
    }
    return found;
  }

  bool empty() const { return intervals_.empty(); }

  // Returns how many ns of each step lie in the union.
  Column<int64_t> within(const Steps& steps) const {
    Column<uint64_t> before(intervals_.size() + 1);  // ns of the intervals before each
    before[0] = 0;
    for (size_t at = 0; at < intervals_.size(); ++at)
      before[at + 1] = before[at] + length(intervals_[at].start, intervals_[at].end);
    Column<int64_t> found(steps.size);
    for (size_t step = 0; step < steps.size; ++step) {
      const int64_t start = steps.start_ns[step], end = std::max(start, steps.end_ns[step]);
      found[step] = static_cast<int64_t>(until(end, before) - until(start, before));
    }
    return found;
  }

 private:
  static uint64_t length(int64_t start, int64_t end) {
    return static_cast<uint64_t>(end) - static_cast<uint64_t>(start);
  }

  uint64_t until(int64_t time, const Column<uint64_t>& before) const {
    const auto next =
        std::upper_bound(intervals_.begin(), intervals_.end(), Interval{time, 0}, starts_before);
    const auto at = static_cast<size_t>(next - intervals_.begin());
    if (at == 0) return 0;
    const int64_t end = intervals_[at - 1].end;
    return before[at] - (end > time ? length(time, end) : 0);
  }

  Column<Interval> intervals_;
  std::vector<size_t> runs_;  // where a run of ascending starts begins, but the first
};

// Finds the last step that began at a time or before; events come mostly by time.
class StepFinder {
 public:
  explicit StepFinder(const Steps& steps) : steps_(steps) {}

  // Returns -1 before the first step.
  ptrdiff_t of(int64_t time) {
    if (time < low_ || time >= high_) {
      const int64_t* const begin = steps_.start_ns;
      const int64_t* const end = begin + steps_.size;
      found_ = std::upper_bound(begin, end, time) - begin - 1;
      low_ = found_ < 0 ? std::numeric_limits<int64_t>::min() : begin[found_];
      high_ = found_ + 1 < static_cast<ptrdiff_t>(steps_.size)
                  ? begin[found_ + 1]
                  : std::numeric_limits<int64_t>::max();
    }
    return found_;
  }

 private:
  const Steps& steps_;
  ptrdiff_t found_ = -1;
  int64_t low_ = 0, high_ = 0;  // the times of found_
};

[[noreturn]] void fail(size_t event) {
  raise<ValueError>("event " + std::to_string(event) + ": invalid name or category");
}

}  // namespace

StepSums step_sums(const Events& events, const Steps& steps) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();
  StepSums found;
  found.loader_end.assign(steps.size, kNever);
  found.optimizer_end.assign(steps.size, kNever);
  found.backward_start.assign(steps.size, kAlways);
  found.optimizer_start.assign(steps.size, kAlways);
  std::vector<uint64_t> busy(events.names);
  Union computation, communication, copies, issues;
  StepFinder finder(steps);
  for (size_t event = 0; event < events.size; ++event) {
    const auto name = static_cast<size_t>(events.name[event]);
    const auto category = static_cast<size_t>(events.category[event]);
    if (name >= events.names || category >= events.categories) fail(event);
    const unsigned classes = events.class_of_name[name] & events.class_of_category[category];
    const int64_t start = events.start_ns[event];
    const auto duration = static_cast<uint64_t>(events.duration_ns[event]);
    const auto end = static_cast<int64_t>(static_cast<uint64_t>(start) + duration);
    if (classes & kComputation) computation.add(start, end);
    if (classes & kCommunication) communication.add(start, end);
    if (classes & kCopy) copies.add(start, end);
    if (classes & kIssue) issues.add(start, end);
    if (!(classes & (kLoader | kBackward | kOptimizer | kBusy))) continue;
    const ptrdiff_t step = finder.of(start);
    if (step < 0) continue;
    const auto at = static_cast<size_t>(step);
    if (classes & kLoader) found.loader_end[at] = std::max(found.loader_end[at], end);
    if (classes & kBackward) found.backward_start[at] = std::min(found.backward_start[at], start);
    if (classes & kOptimizer) {
      found.optimizer_start[at] = std::min(found.optimizer_start[at], start);
      found.optimizer_end[at] = std::max(found.optimizer_end[at], end);
    }
    const bool counts = (classes & (kBusy | kCommunication)) == kBusy;
    if (counts && start < steps.end_ns[at]) busy[name] += duration;
  }
  for (Union* each : {&computation, &communication, &copies, &issues}) each->sort();
  if (!issues.empty()) computation = computation.without(issues);
  found.computation = computation.within(steps);
  found.communication = communication.within(steps);
  found.copies = copies.within(steps);
  const Union exposed = communication.without(computation);
  found.exposed_communication = exposed.within(steps);
  found.exposed_copies = copies.without(computation).without(exposed).within(steps);
  found.busy.resize(busy.size());
  for (size_t name = 0; name < busy.size(); ++name)
    found.busy[name] = static_cast<int64_t>(busy[name]);
  return found;
}

}  // namespace rank_steps
FASTPROF_NAMESPACE_END
