// SPDX-License-Identifier: Apache-2.0
// Summary: statistics of a capture per range name, with exact percentiles, and the printed
// table. How they are computed is in summarise.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// Statistics of all ranges of one name and category. Times in ns. The duration of an unfinished
// range is the time until the stop.
struct SummaryRow {
  std::string name;
  std::string category;
  uint64_t count = 0;
  int64_t total_ns = 0;  // sum of durations
  // Total minus that of direct synchronous children, not clamped at 0; 0 for async ranges.
  int64_t self_ns = 0;
  int64_t min_ns = 0;
  double mean_ns = 0;
  // Nearest-rank percentiles: the smallest duration that at least 50 % (99 %) of the ranges do not
  // exceed.
  int64_t p50_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
  uint64_t unfinished = 0;
};

enum class SummaryOrder : uint8_t { self, total, count, mean, min, p50, p99, max, name };

// Statistics of a capture: one row per (name, category), and totals. Made by summarise(); owns its
// data. Iterates over the rows. Plain data: several threads may read one, and a thread that changes
// it must be alone.
struct Summary {
  std::vector<SummaryRow> rows;
  int64_t self_total_ns = 0;  // sum of self times; 100 % of "Self %"
  int64_t window_ns = 0;      // length of the session
  uint64_t ranges = 0;        // rows of the capture counted in `rows`
  uint64_t other_events = 0;  // marks, counters, flows, memory
  uint64_t unfinished = 0;
  uint64_t threads = 0;
  int64_t clock_error_ns = 0;
  bool exact_stop = true;
  std::array<uint64_t, kMaxDropCauses> dropped{};

  std::vector<SummaryRow>::const_iterator begin() const noexcept { return rows.begin(); }
  std::vector<SummaryRow>::const_iterator end() const noexcept { return rows.end(); }
  size_t size() const noexcept { return rows.size(); }
  const SummaryRow& operator[](size_t i) const noexcept { return rows[i]; }

  // Returns the first row of this name, or null.
  const SummaryRow* find(std::string_view name) const noexcept {
    for (const SummaryRow& row : rows)
      if (row.name == name) return &row;
    return nullptr;
  }

  // Sorts the rows, descending (names ascending). Stable.
  void sort(SummaryOrder order);

  // Formats the table: at most row_limit rows (0: all), names truncated to name_width characters,
  // and a footer that reports what is missing. UTF-8; control characters in names are replaced by
  // '?'.
  std::string to_string(size_t row_limit = 100, size_t name_width = 55) const;
};

// Summarises a capture. Ranges begun before the session (flag enclosing) are not counted. Raises
// ValueError if the columns are inconsistent. O(rows); temporarily uses two words of memory per
// row. Any thread; only reads the capture.
Summary summarise(const Capture& capture, SummaryOrder order = SummaryOrder::self);

// Formats the table with the default limits.
inline std::string to_string(const Summary& summary) {
  return summary.to_string();
}

// Prints the table to any stream that accepts a std::string.
template <class Stream>
inline auto operator<<(Stream& out, const Summary& summary)
    -> decltype(out << std::declval<const std::string&>()) {
  return out << summary.to_string();
}

FASTPROF_NAMESPACE_END

#if !FASTPROF_DECLARED_ONLY
#include "fastprof/capture/summarise.hpp"
#endif
