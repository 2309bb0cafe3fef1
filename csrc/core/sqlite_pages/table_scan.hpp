// SPDX-License-Identifier: Apache-2.0
// scan_table: reads integer columns of one table of an SQLite database from the file's pages, which
// takes a tenth of the time of SQLite's own cursor. Only tables with rowids are read; whatever is
// unusual or damaged is left to SQLite.
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
  uint32_t index;    // in the record; of a column that is not the row's id
  bool may_be_null;  // NULL reads as `absent`
  int64_t absent;
};

// Reads the columns of all rows, in the order of their ids, column after column: returns the number
// of rows, or -1 if SQLite must read the table: for a value that is no integer, a record in which a
// column is missing or lies on an overflow page, and for damage.
// file: descriptor of the database, whose offset is not changed. root: number of the table's root
// page. max_rows: limit of the number of rows, beyond which the result is -1.
int64_t scan_table(int file, uint32_t root, const std::vector<WantedColumn>& columns,
                   uint64_t max_rows, std::vector<Column<int64_t>>& values);

}  // namespace sqlite_pages
FASTPROF_NAMESPACE_END
