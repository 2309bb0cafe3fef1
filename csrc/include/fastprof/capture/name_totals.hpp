// SPDX-License-Identifier: Apache-2.0
// NameTotals: statistics of durations per name in bounded memory, for the running minute, the
// running hour and all the time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/column.hpp"
#include "fastprof/capture/duration_sketch.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

enum class TotalsWindow : uint8_t { minute, hour, all };

// One window of NameTotals as columns: a row per name that has a duration in it. Texts are
// concatenated: row i has the bytes [name_ends[i - 1], name_ends[i]). So are bins.
struct TotalsColumns {
  std::string names, categories;
  Column<uint64_t> name_ends, category_ends;
  Column<uint64_t> count, zeros, collapsed;
  Column<int64_t> total_ns, self_ns, min_ns, max_ns;
  Column<uint64_t> bin_ends;
  Column<uint16_t> bins;
  Column<uint64_t> bin_counts;
};

// Not thread-safe. A window of a name takes at most 6 kB; names beyond kMaxNames share the row
// "other names".
class NameTotals {
 public:
  static constexpr size_t kMaxNames = 5000;
  static constexpr size_t kMaxNameBytes = 512;  // longer names are cut

  NameTotals() { rows_.push_back(Row{"other names", "", {}, {}, {}}); }

  // The row of a site's ranges. The site must stay valid until the next forget_sites().
  FASTPROF_ALWAYS_INLINE uint32_t row_of(const Site* site) {
    const Cached& cached = cache_[(reinterpret_cast<uintptr_t>(site) >> 4) % kCache];
    return FASTPROF_LIKELY(cached.site == site) ? cached.row : look_up(site);
  }

  FASTPROF_ALWAYS_INLINE void add(uint32_t row, int64_t duration_ns, int64_t self_ns) {
    rows_[row].minute.add(bins_, duration_ns, self_ns);
  }

  // Addresses of sites may be used again from here on.
  void forget_sites() noexcept { cache_.fill(Cached{}); }

  // Ends the minute, and the hour if `hour`: later durations are in the next ones.
  void begin_minute(bool hour) {
    for (Row& row : rows_) {
      if (row.minute.count != 0) {
        row.hour.merge(row.minute);
        row.minute.clear();
      }
      if (hour && row.hour.count != 0) {
        row.all.merge(row.hour);
        row.hour.clear();
      }
    }
  }

  // Names that have a row of their own.
  size_t names() const noexcept { return rows_.size() - 1; }

  TotalsColumns columns(TotalsWindow window) const {
    TotalsColumns made;
    for (const Row& row : rows_) {
      if (window == TotalsWindow::minute) {
        append(made, row, row.minute);
        continue;
      }
      // The hour does not contain the running minute yet, nor does the rest contain the hour.
      Sketch sum = row.hour;
      sum.merge(row.minute);
      if (window == TotalsWindow::all) sum.merge(row.all);
      append(made, row, sum);
    }
    return made;
  }

 private:
  // 1344 bins: of durations that are spread over 11 decades.
  using Sketch = DurationSketch<168>;
  static_assert(sizeof(Sketch) + 168 * 32 <= 6000, "a window of a name takes 6 kB");
  struct Row {
    std::string name, category;
    Sketch minute, hour, all;
  };
  struct Cached {
    const Site* site = nullptr;
    uint32_t row = 0;
  };
  static constexpr size_t kCache = 4096;

  uint32_t look_up(const Site* site) {
    const char* text = site->name != nullptr ? site->name : "";
    std::string_view name(text, ::strnlen(text, kMaxNameBytes));
    const std::string_view step = "ProfilerStep#";
    if (name.substr(0, step.size()) == step) name = "ProfilerStep#*";  // each has a number
    const std::string_view category(site->category_name != nullptr ? site->category_name : "");
    std::string key(name);
    key.append(1, '\0').append(category);
    uint32_t row = 0;
    if (const auto known = index_.find(key); known != index_.end()) {
      row = known->second;
    } else if (names() < kMaxNames) {
      row = static_cast<uint32_t>(rows_.size());
      rows_.push_back(Row{std::string(name), std::string(category), {}, {}, {}});
      index_.emplace(std::move(key), row);
    }
    cache_[(reinterpret_cast<uintptr_t>(site) >> 4) % kCache] = Cached{site, row};
    return row;
  }

  static void append(TotalsColumns& to, const Row& row, const Sketch& sketch) {
    if (sketch.count == 0) return;
    to.names += row.name;
    to.name_ends.push_back(to.names.size());
    to.categories += row.category;
    to.category_ends.push_back(to.categories.size());
    to.count.push_back(sketch.count);
    to.zeros.push_back(sketch.zeros);
    to.collapsed.push_back(sketch.collapsed);
    to.total_ns.push_back(sketch.total_ns);
    to.self_ns.push_back(sketch.self_ns);
    to.min_ns.push_back(sketch.min_ns);
    to.max_ns.push_back(sketch.max_ns);
    sketch.each_bin([&to](uint32_t bin, uint64_t number) {
      to.bins.push_back(static_cast<uint16_t>(bin));
      to.bin_counts.push_back(number);
    });
    to.bin_ends.push_back(to.bins.size());
  }

  DurationBins bins_;
  std::vector<Row> rows_;
  std::unordered_map<std::string, uint32_t> index_;
  std::array<Cached, kCache> cache_{};
};

FASTPROF_NAMESPACE_END
