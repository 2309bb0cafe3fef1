// SPDX-License-Identifier: Apache-2.0
// Attributes memory records to ranges: each to the innermost range open on its thread, and, through
// the tree, to all ranges that enclose it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/column.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Borrowed columns of a table in which parents precede their children.
struct MemoryRows {
  size_t rows = 0;
  const SiteKind* kind = nullptr;
  const int32_t* parent = nullptr;    // row of the enclosing range, -1 for none
  const uint8_t* nests = nullptr;     // 0 for rows that take no part in nesting; null: all nest
  const uint32_t* payload = nullptr;  // for memory rows: index of (ptr, bytes, totals) in `words`
  const uint32_t* site = nullptr;
  const uint64_t* words = nullptr;
  size_t words_count = 0;
};

// Result of memory_by_innermost.
struct MemoryUsage {
  // Bytes by row, including children; empty if all are 0. For memory rows: bytes attributed to no
  // range.
  Column<int64_t> cpu, device;
  Column<int64_t> left_over;  // memory rows in no range, ascending
  Column<int64_t> failed;     // rows of failed allocations, ascending
};

namespace memory_usage {

inline bool is_range(SiteKind kind) noexcept {
  return kind == SiteKind::range || kind == SiteKind::async_range;
}

[[noreturn]] inline void fail(size_t row, const char* what) {
  raise<ValueError>("table row " + std::to_string(row) + ": " + what);
}

inline int32_t parent_of(const MemoryRows& table, size_t row) {
  const int32_t parent = table.parent[row];
  if (parent >= 0 && static_cast<size_t>(parent) >= row)
    fail(row, "its parent must be an earlier row");
  return parent;
}

// Adds with wraparound, as NumPy does.
inline void add(int64_t& to, int64_t bytes) noexcept {
  to = static_cast<int64_t>(static_cast<uint64_t>(to) + static_cast<uint64_t>(bytes));
}

// Adds each row's bytes to its nearest enclosing range that nests.
inline void include_children(const MemoryRows& table, Column<int64_t>& usage) {
  if (usage.empty()) return;
  for (size_t row = table.rows; row-- > 0;) {
    if (usage[row] == 0 || (table.nests != nullptr && table.nests[row] == 0)) continue;
    int32_t up = parent_of(table, row);
    while (up >= 0) {
      const auto above = static_cast<size_t>(up);
      if (is_range(table.kind[above]) && (table.nests == nullptr || table.nests[above] != 0)) {
        add(usage[above], usage[row]);
        break;
      }
      up = parent_of(table, above);
    }
  }
}

}  // namespace memory_usage

// Attributes memory. cpu_sites: by site, whether its memory belongs to the CPU. Raises ValueError,
// naming the row, if an index is out of range or a payload is missing.
inline MemoryUsage memory_by_innermost(const MemoryRows& table,
                                       const std::vector<bool>& cpu_sites) {
  using memory_usage::add;
  MemoryUsage found;
  const auto column_of = [&](size_t row) -> Column<int64_t>& {
    if (table.site[row] >= cpu_sites.size()) memory_usage::fail(row, "invalid site index");
    Column<int64_t>& column = cpu_sites[table.site[row]] ? found.cpu : found.device;
    if (column.empty()) column.resize(table.rows, 0);
    return column;
  };
  const auto bytes_of = [&](size_t row) {
    const uint32_t at = table.payload[row];
    if (table.words_count < 2 || at > table.words_count - 2)
      memory_usage::fail(row, "memory without payload words");
    return static_cast<int64_t>(table.words[at + 1]);
  };
  for (size_t row = 0; row < table.rows; ++row) {
    if (table.kind[row] == SiteKind::out_of_memory)
      found.failed.push_back(static_cast<int64_t>(row));
    if (table.kind[row] != SiteKind::memory) continue;
    const int64_t bytes = bytes_of(row);
    const int32_t range = memory_usage::parent_of(table, row);
    if (range < 0 || !memory_usage::is_range(table.kind[static_cast<size_t>(range)]))
      found.left_over.push_back(static_cast<int64_t>(row));
    else if (bytes != 0)
      add(column_of(row)[static_cast<size_t>(range)], bytes);
  }
  memory_usage::include_children(table, found.cpu);
  memory_usage::include_children(table, found.device);
  for (const int64_t row : found.left_over) {
    const int64_t bytes = bytes_of(static_cast<size_t>(row));
    if (bytes != 0) column_of(static_cast<size_t>(row))[static_cast<size_t>(row)] = bytes;
  }
  return found;
}

FASTPROF_NAMESPACE_END
