// SPDX-License-Identifier: Apache-2.0
// Finds recursion: rows inside a row of the same code, such as calls of a function by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN

// For each of `rows` rows, 1 if one of its ancestors has the same code, else 0. parent: -1 for
// none; a parent must come before its children, and the rows of a subtree must be adjacent, as they
// are in captured tables. Codes must lie in [0, codes). Raises ValueError otherwise. O(rows).
inline std::vector<uint8_t> nested_codes(const int32_t* parent, const int32_t* code, size_t rows,
                                         size_t codes) {
  std::vector<uint8_t> nested(rows);
  std::vector<uint32_t> open(codes);  // rows of `path` by code
  std::vector<int32_t> path;          // the row before, and its ancestors
  for (size_t row = 0; row < rows; ++row) {
    const int32_t up = parent[row];
    if (up < -1 || (up >= 0 && static_cast<size_t>(up) >= row) || code[row] < 0 ||
        static_cast<size_t>(code[row]) >= codes)
      raise<ValueError>("row " + std::to_string(row) + ": its parent or its code is out of range");
    while (!path.empty() && path.back() != up) {
      --open[static_cast<size_t>(code[path.back()])];
      path.pop_back();
    }
    if (path.empty() && up >= 0)
      raise<ValueError>("row " + std::to_string(row) + ": its parent is not among the open rows");
    uint32_t& count = open[static_cast<size_t>(code[row])];
    nested[row] = count != 0 ? 1 : 0;
    ++count;
    path.push_back(static_cast<int32_t>(row));
  }
  return nested;
}

FASTPROF_NAMESPACE_END
