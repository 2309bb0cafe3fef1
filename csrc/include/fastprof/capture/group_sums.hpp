// SPDX-License-Identifier: Apache-2.0
// Sums by group over the events of a list: durations, and columns whose values include children.
// Computed in 64-bit integers that wrap on overflow.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN

// The events of a list, as borrowed columns.
template <class Code>
struct GroupedEvents {
  size_t size = 0;
  size_t groups = 0;
  const Code* codes = nullptr;        // group of each event
  const int32_t* parent = nullptr;    // index of the enclosing event, -1 for none
  const int64_t* rows = nullptr;      // table row of each event; null: equal to its index
  size_t table_rows = 0;              // length of the value columns
  const uint8_t* on_cpu = nullptr;    // 0 for events of other devices; null: all are on the CPU
  const uint8_t* is_async = nullptr;  // nonzero for async events; null: none are

  [[noreturn]] void fail(size_t event, const char* what) const {
    raise<ValueError>("event " + std::to_string(event) + ": " + what);
  }
  size_t group_of(size_t event) const {
    const auto group = static_cast<size_t>(codes[event]);
    if (FASTPROF_UNLIKELY(group >= groups)) fail(event, "invalid group");
    return group;
  }
  size_t row_of(size_t event) const {
    const size_t row = rows == nullptr ? event : static_cast<size_t>(rows[event]);
    if (FASTPROF_UNLIKELY(row >= table_rows)) fail(event, "invalid row");
    return row;
  }
  // Returns the enclosing event of an event that has one.
  size_t around(size_t event) const {
    const auto index = static_cast<size_t>(parent[event]);
    if (FASTPROF_UNLIKELY(index >= size)) fail(event, "invalid parent");
    return index;
  }
  bool is_on_cpu(size_t event) const noexcept { return on_cpu == nullptr || on_cpu[event] != 0; }
  bool has_own(size_t event) const noexcept {
    return is_on_cpu(event) && (is_async == nullptr || is_async[event] == 0);
  }
};

// Sums by group.
struct GroupSums {
  explicit GroupSums(size_t groups) : total(groups), own(groups), count(groups) {}

  std::vector<uint64_t> total, own, count;  // own: total minus that of the direct children
};

// Sums durations (ns). An event of another device counts with duration 0; async events have no own
// time. Raises ValueError, naming the event, if an index is out of range.
template <class Code>
inline GroupSums sum_times(const GroupedEvents<Code>& events, const int64_t* start,
                           const int64_t* end) {
  GroupSums sums(events.groups);
  for (size_t event = 0; event < events.size; ++event) {
    const size_t group = events.group_of(event);
    ++sums.count[group];
    const size_t row = events.row_of(event);
    if (!events.is_on_cpu(event)) continue;
    const uint64_t duration = static_cast<uint64_t>(end[row]) - static_cast<uint64_t>(start[row]);
    sums.total[group] += duration;
    if (events.has_own(event)) sums.own[group] += duration;
    if (events.parent[event] >= 0) sums.own[events.group_of(events.around(event))] -= duration;
  }
  return sums;
}

// Sums a column whose values include children. Events with value 0 are skipped, because most ranges
// allocate no memory; `count` counts the others.
template <class Code>
inline GroupSums sum_usage(const GroupedEvents<Code>& events, const int64_t* values) {
  GroupSums sums(events.groups);
  for (size_t event = 0; event < events.size; ++event) {
    const auto value = static_cast<uint64_t>(values[events.row_of(event)]);
    if (value == 0) continue;
    const size_t group = events.group_of(event);
    ++sums.count[group];
    sums.total[group] += value;
    if (events.has_own(event)) sums.own[group] += value;
    if (events.parent[event] < 0) continue;
    const size_t around = events.around(event);
    if (events.has_own(around)) sums.own[events.group_of(around)] -= value;
  }
  return sums;
}

// Returns the first event of each group in list order, -1 for an empty group. order: event at each
// position; null: as stored.
template <class Code>
inline std::vector<int64_t> first_events(const GroupedEvents<Code>& events, const int64_t* order) {
  std::vector<int64_t> first(events.groups, -1);
  size_t missing = events.groups;
  for (size_t at = 0; at < events.size && missing != 0; ++at) {
    const size_t event = order == nullptr ? at : static_cast<size_t>(order[at]);
    if (FASTPROF_UNLIKELY(event >= events.size)) events.fail(at, "invalid position in the list");
    int64_t& found = first[events.group_of(event)];
    if (found >= 0) continue;
    found = static_cast<int64_t>(event);
    --missing;
  }
  return first;
}

// Sums doubles in list order, as a plain loop would. order: event at each position; null: as
// stored. NaN counts as 0, an infinity as the largest finite number of its sign.
template <class Code>
inline std::vector<double> sum_floats(const GroupedEvents<Code>& events, const int64_t* order,
                                      const double* values) {
  std::vector<double> sums(events.groups);
  for (size_t at = 0; at < events.size; ++at) {
    const size_t event = order == nullptr ? at : static_cast<size_t>(order[at]);
    if (FASTPROF_UNLIKELY(event >= events.size)) events.fail(at, "invalid position in the list");
    double value = values[events.row_of(event)];
    if (value == 0 || std::isnan(value)) continue;
    if (FASTPROF_UNLIKELY(std::isinf(value)))
      value = std::copysign(std::numeric_limits<double>::max(), value);
    sums[events.group_of(event)] += value;
  }
  return sums;
}

FASTPROF_NAMESPACE_END
