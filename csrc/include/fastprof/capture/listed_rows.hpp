// SPDX-License-Identifier: Apache-2.0
// The tree of a list of events: which rows of a table are listed, and who encloses whom among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/column.hpp"
#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN

// Columns of a table in which a parent comes before its children. Nothing is owned.
struct ListRequest {
  size_t rows = 0;
  const int32_t* parent = nullptr;  // row of the range around each row, -1 for none
  const SiteKind* kind = nullptr;   // null: all are ranges
  const uint8_t* nests = nullptr;   // 0 for rows that are no parent and have none; null: all nest
  const uint8_t* hidden = nullptr;  // not 0 for rows to leave out; null: none
  const uint32_t* site = nullptr;
};

struct ListedRows {
  bool all = false;        // every row is listed: `rows` is empty
  Column<int64_t> rows;    // of the table, ascending
  Column<int32_t> parent;  // index in the list, -1 for none
};

// Ranges that are not hidden; children of what is left out go to the next range around it. A row
// that has its parent's name and is its parent's only child is left out too. name_of_site: code of
// the name of each site. Raises ValueError naming the row that refers to what is not there.
inline ListedRows list_rows(const ListRequest& table, const std::vector<int32_t>& name_of_site) {
  enum : uint8_t { listed = 1, nests = 2, one_child = 4, more_children = 8 };
  const auto fail = [](size_t row, const char* what) {
    raise<ValueError>("table row " + std::to_string(row) + ": " + what);
  };
  const auto at = [](int32_t row) { return static_cast<size_t>(row); };
  Column<uint8_t> state;
  Column<int32_t> above;  // the nearest range around each row that is listed and nests
  state.resize(table.rows);
  above.resize(table.rows);
  size_t listed_count = 0;
  for (size_t row = 0; row < table.rows; ++row) {
    if (table.site[row] >= name_of_site.size()) fail(row, "no such site");
    int32_t up = table.parent[row];
    if (up >= 0) {
      if (at(up) >= row) fail(row, "its parent must be an earlier row");
      if ((state[at(up)] & (listed | nests)) != (listed | nests)) up = above[at(up)];
    }
    above[row] = up;
    const bool is_listed = (table.kind == nullptr || table.kind[row] <= SiteKind::async_range) &&
                           (table.hidden == nullptr || table.hidden[row] == 0);
    const bool is_nested = table.nests == nullptr || table.nests[row] != 0;
    state[row] = static_cast<uint8_t>((is_listed ? listed : 0) | (is_nested ? nests : 0));
    if (!is_listed) continue;
    ++listed_count;
    if (!is_nested || up < 0) continue;
    uint8_t& around = state[at(up)];
    around |= (around & one_child) != 0 ? more_children : one_child;
  }
  ListedRows found;
  found.parent.reserve(listed_count);
  const auto name = [&](size_t row) { return name_of_site[table.site[row]]; };
  // From here on `above` of a row that was passed is its index in the list, or, where it is left
  // out as a repetition, that of the range that takes its children.
  for (size_t row = 0; row < table.rows; ++row) {
    if ((state[row] & listed) == 0) continue;
    const int32_t up = (state[row] & nests) != 0 ? above[row] : -1;
    const bool only_child = up >= 0 && (state[at(up)] & (one_child | more_children)) == one_child;
    const int32_t parent = up < 0 ? -1 : above[at(up)];
    if (only_child && name(row) == name(at(up))) {
      above[row] = parent;
      continue;
    }
    above[row] = static_cast<int32_t>(found.parent.size());
    found.parent.push_back(parent);
    state[row] |= more_children << 1;  // in the list
  }
  found.all = found.parent.size() == table.rows;
  if (found.all) return found;
  found.rows.reserve(found.parent.size());
  for (size_t row = 0; row < table.rows; ++row)
    if ((state[row] & more_children << 1) != 0) found.rows.push_back(static_cast<int64_t>(row));
  return found;
}

FASTPROF_NAMESPACE_END
