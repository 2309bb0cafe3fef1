// SPDX-License-Identifier: Apache-2.0
// Computes a Summary and formats its table. Apart from summary.hpp, so that a program can compile
// it once (FASTPROF_SEPARATE, see definitions.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/drop_cause.hpp"
#include "fastprof/base/stable_order.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/summary.hpp"
#include "fastprof/capture/validate.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns whether `a` precedes `b` in this order. By self time, ranges that only wait come last:
// otherwise a thread without work would come first.
inline bool comes_first(SummaryOrder order, const SummaryRow& a, const SummaryRow& b) noexcept {
  switch (order) {
    case SummaryOrder::self: {
      const bool a_waits = a.category == kWaitCategory, b_waits = b.category == kWaitCategory;
      return a_waits != b_waits ? b_waits : a.self_ns > b.self_ns;
    }
    case SummaryOrder::total:
      return a.total_ns > b.total_ns;
    case SummaryOrder::count:
      return a.count > b.count;
    case SummaryOrder::mean:
      return a.mean_ns > b.mean_ns;
    case SummaryOrder::min:
      return a.min_ns > b.min_ns;
    case SummaryOrder::p50:
      return a.p50_ns > b.p50_ns;
    case SummaryOrder::p99:
      return a.p99_ns > b.p99_ns;
    case SummaryOrder::max:
      return a.max_ns > b.max_ns;
    case SummaryOrder::name:
      return a.name < b.name;
  }
  return false;
}

namespace summary_detail {

// Groups sites by (name, category). Returns the group of each site and appends one named row per
// group to `rows`.
inline std::vector<uint32_t> group_sites(const Capture& capture, std::vector<SummaryRow>& rows) {
  std::vector<uint32_t> group(capture.sites.size());
  std::unordered_map<std::string, uint32_t> known;
  std::string key;
  for (size_t i = 0; i < capture.sites.size(); ++i) {
    const SiteInfo& site = capture.sites[i];
    key.assign(site.name).push_back('\0');
    key.append(site.category);
    const auto [at, fresh] = known.emplace(key, static_cast<uint32_t>(rows.size()));
    if (fresh) {
      rows.emplace_back();
      rows.back().name = site.name;
      rows.back().category = site.category;
    }
    group[i] = at->second;
  }
  return group;
}

// Nearest-rank index of `percent` among `count` sorted values: ceil(count * percent / 100) - 1.
// count >= 1.
inline size_t nearest_rank(size_t count, size_t percent) noexcept {
  return (count * percent + 99) / 100 - 1;
}

// Sets min, max, p50 and p99 from durations[0, count), which it reorders. count >= 1. O(count) on
// average.
inline void set_percentiles(SummaryRow& row, int64_t* durations, size_t count) noexcept {
  int64_t* const end = durations + count;
  int64_t* const p50 = durations + nearest_rank(count, 50);
  int64_t* const p99 = durations + nearest_rank(count, 99);
  std::nth_element(durations, p50, end);
  row.p50_ns = *p50;
  row.min_ns = *std::min_element(durations, p50 + 1);
  if (p99 != p50) std::nth_element(p50 + 1, p99, end);
  row.p99_ns = *p99;
  row.max_ns = *std::max_element(p99, end);
}

// Returns the number of characters of well-formed UTF-8, each counted as one column.
inline size_t display_width(std::string_view text) noexcept {
  size_t width = 0;
  for (const char byte : text) width += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return width;
}

// Replaces control characters by '?' and truncates to `limit` characters, ending in "...".
inline std::string cut(std::string_view text, size_t limit) {
  std::string out;
  for (const char byte : text) {
    out.push_back(static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F ? '?' : byte);
  }
  if (limit < 4 || display_width(out) <= limit) return out;
  size_t seen = 0, bytes = 0;
  while (bytes < out.size()) {
    if ((static_cast<unsigned char>(out[bytes]) & 0xC0) != 0x80 && seen++ == limit - 3) break;
    ++bytes;
  }
  out.resize(bytes);
  return out + "...";
}

// Formats a time with the largest unit that fits, s to ns; three decimals except for ns.
inline std::string time_text(double ns) {
  char buffer[48];
  const double size = ns < 0 ? -ns : ns;
  if (size >= 1e9) {
    std::snprintf(buffer, sizeof buffer, "%.3f s", ns / 1e9);
  } else if (size >= 1e6) {
    std::snprintf(buffer, sizeof buffer, "%.3f ms", ns / 1e6);
  } else if (size >= 1e3) {
    std::snprintf(buffer, sizeof buffer, "%.3f us", ns / 1e3);
  } else {
    std::snprintf(buffer, sizeof buffer, "%.0f ns", ns);
  }
  return buffer;
}

inline std::string share_text(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f%%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return buffer;
}

constexpr size_t kColumns = 11;
using Cells = std::array<std::string, kColumns>;

// Appends one line: the first two columns left-aligned, the numbers right-aligned.
inline void append_line(std::string& out, const Cells& cells,
                        const std::array<size_t, kColumns>& width) {
  std::string line;
  for (size_t i = 0; i < kColumns; ++i) {
    const std::string pad(width[i] - display_width(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += i < 2 ? cells[i] + pad : pad + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

inline void append_footer(std::string& out, const Summary& summary) {
  out += "Self time total: " + time_text(static_cast<double>(summary.self_total_ns)) + " in " +
         std::to_string(summary.ranges) + " ranges on " + std::to_string(summary.threads) +
         (summary.threads == 1 ? " thread" : " threads") + ", session " +
         time_text(static_cast<double>(summary.window_ns)) + '\n';
  if (summary.unfinished != 0) {
    out += "Unfinished at stop: " + std::to_string(summary.unfinished) +
           " (counted with the time until the stop)\n";
  }
  uint64_t missing = 0;
  std::string causes;
  for_each_drop_cause(summary.dropped, [&](DropCause cause, uint64_t count) {
    if (count == 0 || !is_missing(cause)) return;
    missing += count;
    causes += (causes.empty() ? "" : ", ") + std::string(drop_cause_name(cause)) + ' ' +
              std::to_string(count);
  });
  if (missing != 0) out += "Dropped: " + std::to_string(missing) + " (" + causes + ")\n";
  const uint64_t anonymous = summary.dropped[static_cast<size_t>(DropCause::names)];
  if (anonymous != 0) {
    out += "Names or string arguments shared or cut: " + std::to_string(anonymous) +
           " (at the bound of names: SessionOptions::max_name_bytes)\n";
  }
  const uint64_t endless = summary.dropped[static_cast<size_t>(DropCause::ends)];
  if (endless != 0) {
    out += "Ends that found no room: " + std::to_string(endless) + " (shown as unfinished)\n";
  }
  if (!summary.exact_stop) {
    out += "The stop was not exact: the kernel refused membarrier\n";
  }
}

}  // namespace summary_detail

FASTPROF_OUTLINE void Summary::sort(SummaryOrder order) {
  put_in_order(rows, stable_order(rows.size(), [this, order](uint32_t a, uint32_t b) {
                 return comes_first(order, rows[a], rows[b]);
               }));
}

FASTPROF_OUTLINE Summary summarise(const Capture& capture, SummaryOrder order) {
  validate_capture(capture);
  Summary summary;
  summary.window_ns = capture.t1_ns - capture.t0_ns;
  summary.clock_error_ns = capture.clock_error_ns;
  summary.exact_stop = capture.exact_stop;
  summary.dropped = capture.dropped;
  const std::vector<uint32_t> group = summary_detail::group_sites(capture, summary.rows);
  std::vector<SummaryRow>& groups = summary.rows;

  const size_t rows = capture.size();
  std::vector<bool> of_task;
  for (const SiteInfo& site : capture.sites) of_task.push_back(is_task_site(site));
  const auto counted = [&](size_t row) noexcept {
    return is_any_range(capture.kind[row]) && (capture.flags[row] & event_flag::enclosing) == 0 &&
           !of_task[capture.site[row]];
  };
  std::vector<int64_t> self_ns(groups.size(), 0);
  uint32_t last_thread = UINT32_MAX;  // the tasks of a thread follow it
  for (size_t row = 0; row < rows; ++row) {
    const uint32_t thread = capture.tracks[capture.track[row]].id_of_thread();
    if (thread != last_thread) ++summary.threads;
    last_thread = thread;
    if (of_task[capture.site[row]]) continue;
    if (!is_any_range(capture.kind[row])) {
      ++summary.other_events;
      continue;
    }
    const int64_t duration = capture.end_ns[row] - capture.start_ns[row];
    const int32_t parent = capture.parent[row];
    if (is_nesting_range(capture, row)) {
      if (counted(row)) self_ns[group[capture.site[row]]] += duration;
      if (parent >= 0 && counted(static_cast<size_t>(parent))) {
        self_ns[group[capture.site[static_cast<size_t>(parent)]]] -= duration;
      }
    }
    if (!counted(row)) continue;
    SummaryRow& into = groups[group[capture.site[row]]];
    ++into.count;
    into.total_ns += duration;
    into.unfinished += (capture.flags[row] & event_flag::finished) == 0;
  }

  // Durations grouped by row of the summary, so that each percentile is a selection within one
  // bucket.
  std::vector<size_t> next(groups.size() + 1, 0);
  for (size_t i = 0; i < groups.size(); ++i) next[i + 1] = next[i] + groups[i].count;
  std::vector<int64_t> durations(next.back());
  for (size_t row = 0; row < rows; ++row) {
    if (counted(row)) {
      durations[next[group[capture.site[row]]]++] = capture.end_ns[row] - capture.start_ns[row];
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    SummaryRow& row = groups[i];
    row.self_ns = self_ns[i];
    if (row.count == 0) continue;
    summary_detail::set_percentiles(row, durations.data() + (next[i] - row.count), row.count);
    row.mean_ns = static_cast<double>(row.total_ns) / static_cast<double>(row.count);
    summary.self_total_ns += row.self_ns;
    summary.ranges += row.count;
    summary.unfinished += row.unfinished;
  }
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [](const SummaryRow& row) { return row.count == 0; }),
               groups.end());
  summary.sort(order);
  return summary;
}

FASTPROF_OUTLINE std::string Summary::to_string(size_t row_limit, size_t name_width) const {
  using namespace summary_detail;
  std::vector<Cells> table;
  table.push_back(
      {"Name", "Category", "Self %", "Self", "Total", "Count", "Mean", "Min", "p50", "p99", "Max"});
  const size_t shown = row_limit == 0 ? rows.size() : std::min(row_limit, rows.size());
  for (size_t i = 0; i < shown; ++i) {
    const SummaryRow& row = rows[i];
    const auto text = [](auto ns) { return time_text(static_cast<double>(ns)); };
    table.push_back({cut(row.name, name_width), cut(row.category, 24),
                     share_text(row.self_ns, self_total_ns), text(row.self_ns), text(row.total_ns),
                     std::to_string(row.count), text(row.mean_ns), text(row.min_ns),
                     text(row.p50_ns), text(row.p99_ns), text(row.max_ns)});
  }
  std::array<size_t, kColumns> width{};
  for (const Cells& cells : table) {
    for (size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], display_width(cells[i]));
  }
  size_t line = 2 * (kColumns - 1);
  for (const size_t w : width) line += w;
  const std::string rule(line, '-');
  std::string out = rule + '\n';
  append_line(out, table[0], width);
  out += rule + '\n';
  for (size_t i = 1; i < table.size(); ++i) append_line(out, table[i], width);
  out += rule + '\n';
  if (shown < rows.size()) {
    out += "(" + std::to_string(rows.size() - shown) + " more rows)\n";
  }
  append_footer(out, *this);
  return out;
}

FASTPROF_NAMESPACE_END
