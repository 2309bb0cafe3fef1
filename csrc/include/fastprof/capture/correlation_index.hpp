// SPDX-License-Identifier: Apache-2.0
// CorrelationIndex: finds the call of a correlation. Correlations are mostly consecutive numbers,
// so that a table by number answers in one load; others are sorted and searched.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN

// Filled with add(), then finish(), then read. Of several values of one correlation the smallest
// counts. Not thread-safe before finish().
class CorrelationIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void reserve(size_t count) { entries_.reserve(count); }
  // correlation: not 0. value: not kNone.
  void add(uint32_t correlation, uint32_t value) {
    entries_.push_back({correlation, value});
    lowest_ = std::min(lowest_, correlation);
    highest_ = std::max(highest_, correlation);
  }
  void finish() {
    if (entries_.empty()) return;
    const uint64_t span = uint64_t{highest_} - lowest_ + 1;
    if (span > 4 * static_cast<uint64_t>(entries_.size()) + 1024) {
      const auto before = [](const Entry& a, const Entry& b) {
        return a.correlation != b.correlation ? a.correlation < b.correlation : a.value < b.value;
      };
      if (!std::is_sorted(entries_.begin(), entries_.end(), before))
        std::sort(entries_.begin(), entries_.end(), before);
      return;
    }
    table_.resize(static_cast<size_t>(span));
    std::fill(table_.begin(), table_.end(), kNone);
    for (const Entry& entry : entries_) {
      uint32_t& value = table_[entry.correlation - lowest_];
      value = std::min(value, entry.value);
    }
    entries_ = {};
  }

  // The value of a correlation; kNone if it has none.
  uint32_t find(uint32_t correlation) const noexcept {
    if (correlation < lowest_ || correlation > highest_) return kNone;
    if (!table_.empty()) return table_[correlation - lowest_];
    const auto at = std::partition_point(
        entries_.begin(), entries_.end(),
        [correlation](const Entry& entry) { return entry.correlation < correlation; });
    return at != entries_.end() && at->correlation == correlation ? at->value : kNone;
  }

 private:
  struct Entry {
    uint32_t correlation, value;
  };

  std::vector<Entry> entries_;
  Column<uint32_t> table_;  // by correlation - lowest_; empty: entries_ are searched
  uint32_t lowest_ = UINT32_MAX, highest_ = 0;
};

FASTPROF_NAMESPACE_END
