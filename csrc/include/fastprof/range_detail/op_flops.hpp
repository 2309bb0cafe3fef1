// SPDX-License-Identifier: Apache-2.0
// FLOPs of ops by row, from what each distinct op is estimated at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// FLOPs by row: estimates[pairs[row]]; 0 for an op of a covering site (by site) that has rows with
// FLOPs of other sites inside, for which these are counted already. estimates[0] is of rows that
// are not paired. Raises ValueError when the sizes disagree or an index is not there.
inline Column<double> flops_by_row(const Capture& capture, const int32_t* pairs, size_t size,
                                   const std::vector<double>& estimates,
                                   const std::vector<bool>& covering) {
  const size_t rows = capture.size();
  if (size != rows) raise<ValueError>("pairs must have an entry for each row");
  if (covering.size() != capture.sites.size())
    raise<ValueError>("covering must have an entry for each site");
  Column<double> flops;
  flops.resize(rows);
  for (size_t row = 0; row < rows; ++row) {
    const auto pair = static_cast<size_t>(pairs[row]);
    if (pair >= estimates.size())
      raise<ValueError>("capture row " + std::to_string(row) + ": no such pair");
    flops[row] = estimates[pair];
  }
  if (std::find(covering.begin(), covering.end(), true) == covering.end()) return flops;
  std::vector<bool> counted(rows);  // something inside has FLOPs of its own
  for (size_t row = rows; row-- > 0;) {
    const uint32_t site = capture.site[row];
    const bool covers = site < covering.size() && covering[site];
    const bool inside = counted[row];
    const int32_t parent = capture.parent[row];
    if (parent >= 0 && (inside || (flops[row] > 0 && !covers))) {
      if (static_cast<size_t>(parent) >= row)
        raise<ValueError>("capture row " + std::to_string(row) +
                          ": its parent must be an earlier row");
      counted[static_cast<size_t>(parent)] = true;
    }
    if (covers && inside) flops[row] = 0;
  }
  return flops;
}

FASTPROF_NAMESPACE_END
