// SPDX-License-Identifier: Apache-2.0
// scan_table(): reads integer columns of one SQLite table directly from the file's pages, in a
// tenth of the time of SQLite's own cursor. Only tables with rowids are supported; anything unusual
// or damaged must be read by SQLite.
//
// Format: https://www.sqlite.org/fileformat2.html, sections 1.3 (header), 1.5 and 1.6 (b-tree
// pages) and 2.1 (records).
#pragma once

#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/column.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace sqlite_pages {

struct WantedColumn {
  uint32_t index;    // position in the record; not of the rowid column
  bool may_be_null;  // NULL reads as `absent`
  int64_t absent;
};

// Reads the columns of all rows, in rowid order, into one Column each. Returns the number of rows,
// or -1 if SQLite must read the table: a value is not an integer, a column is missing in a record
// or lies on an overflow page, there are more than max_rows rows, or the file is damaged.
//
// file: descriptor of the database, whose offset is not changed. root: number of the table's root
// page. Any thread, if no process writes to the file.
int64_t scan_table(int file, uint32_t root, const std::vector<WantedColumn>& columns,
                   uint64_t max_rows, std::vector<Column<int64_t>>& values);

}  // namespace sqlite_pages
FASTPROF_NAMESPACE_END
