// SPDX-License-Identifier: Apache-2.0
// Builds the tree of an event list: which rows of a table are listed, and their parents in the
// list.
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
struct ListRequest {
  size_t rows = 0;
  const int32_t* parent = nullptr;  // row of the enclosing range, -1 for none
  const SiteKind* kind = nullptr;   // null: all rows are ranges
  const uint8_t* nests = nullptr;   // 0 for rows that take no part in nesting; null: all nest
  const uint8_t* hidden = nullptr;  // nonzero for rows to omit; null: none
  const uint32_t* site = nullptr;
};

// Result of list_rows.
struct ListedRows {
  bool all = false;        // every row is listed; `rows` is then empty
  Column<int64_t> rows;    // listed rows of the table, ascending
  Column<int32_t> parent;  // index of the parent in the list, -1 for none
};

// Lists the ranges that are not hidden. Children of an omitted row get its nearest listed ancestor
// as parent. A row that is its parent's only child and has the same name is omitted too.
// name_of_site: a code of each site's name; negative for sites whose rows are never repetitions.
// Raises ValueError, naming the row, if an index is out of range.
inline ListedRows list_rows(const ListRequest& table, const std::vector<int32_t>& name_of_site) {
  enum : uint8_t { listed = 1, nests = 2, one_child = 4, more_children = 8, in_list = 16 };
  const auto fail = [](size_t row, const char* what) {
    raise<ValueError>("table row " + std::to_string(row) + ": " + what);
  };
  const auto at = [](int32_t row) { return static_cast<size_t>(row); };
  Column<uint8_t> state;
  Column<int32_t> above;  // nearest listed, nesting ancestor of each row
  state.resize(table.rows);
  above.resize(table.rows);
  size_t listed_count = 0;
  for (size_t row = 0; row < table.rows; ++row) {
    if (table.site[row] >= name_of_site.size()) fail(row, "invalid site index");
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
  // From here on, above[row] of a processed row is its index in the list or, if the row is omitted
  // as a repetition, the list index of the range that adopts its children.
  for (size_t row = 0; row < table.rows; ++row) {
    if ((state[row] & listed) == 0) continue;
    const int32_t up = (state[row] & nests) != 0 ? above[row] : -1;
    const bool only_child = up >= 0 && (state[at(up)] & (one_child | more_children)) == one_child;
    const int32_t parent = up < 0 ? -1 : above[at(up)];
    if (only_child && name(row) >= 0 && name(row) == name(at(up))) {
      above[row] = parent;
      continue;
    }
    above[row] = static_cast<int32_t>(found.parent.size());
    found.parent.push_back(parent);
    state[row] |= in_list;
  }
  found.all = found.parent.size() == table.rows;
  if (found.all) return found;
  found.rows.reserve(found.parent.size());
  for (size_t row = 0; row < table.rows; ++row)
    if ((state[row] & in_list) != 0) found.rows.push_back(static_cast<int64_t>(row));
  return found;
}

FASTPROF_NAMESPACE_END
