// SPDX-License-Identifier: Apache-2.0
// FLOPs of ops by row, from what each distinct op is estimated at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// The distinct (site, code of inputs) of ops, as DetailColumns finds them.
using OpPairs = std::vector<std::pair<uint32_t, int32_t>>;

// FLOPs by row: of ops (site, inputs[row] - 1) what the pair is estimated at, 0 for others and
// where inputs[row] is 0; and 0 for an op of a covering site (by site) that has rows with FLOPs of
// other sites inside, for which these are counted already. Raises ValueError when the sizes
// disagree or something is not there.
inline Column<double> flops_by_row(const Capture& capture, const int32_t* inputs, size_t size,
                                   const OpPairs& pairs, const std::vector<double>& estimates,
                                   const std::vector<bool>& covering) {
  const size_t rows = capture.size();
  const size_t sites = capture.sites.size();
  if (size != rows) raise<ValueError>("inputs must have an entry for each row");
  if (estimates.size() != pairs.size()) raise<ValueError>("each pair must have an estimate");
  if (covering.size() != sites) raise<ValueError>("covering must have an entry for each site");
  std::vector<std::vector<double>> estimate_of(sites);  // by site and 1 + code
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [site, code] = pairs[i];
    if (site >= sites || code < 0) raise<ValueError>("a pair has no such site or inputs");
    std::vector<double>& known = estimate_of[site];
    if (static_cast<size_t>(code) + 2 > known.size()) known.resize(static_cast<size_t>(code) + 2);
    known[static_cast<size_t>(code) + 1] = estimates[i];
  }
  Column<double> flops;
  flops.resize(rows);
  for (size_t row = 0; row < rows; ++row) {
    if (capture.site[row] >= sites)
      raise<ValueError>("capture row " + std::to_string(row) + ": no such site");
    const std::vector<double>& known = estimate_of[capture.site[row]];
    const auto code = static_cast<size_t>(inputs[row]);
    flops[row] = code < known.size() ? known[code] : 0;
  }
  if (std::find(covering.begin(), covering.end(), true) == covering.end()) return flops;
  std::vector<bool> counted(rows);  // something inside has FLOPs of its own
  for (size_t row = rows; row-- > 0;) {
    const uint32_t site = capture.site[row];
    const bool covers = covering[site];
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
