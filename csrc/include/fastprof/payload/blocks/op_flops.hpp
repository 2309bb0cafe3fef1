// SPDX-License-Identifier: Apache-2.0
// Computes FLOPs per row from an estimate for each distinct op.
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

// The distinct (site, code of inputs) pairs of ops, as collected by DetailColumns.
using SiteInputs = std::vector<std::pair<uint32_t, int32_t>>;

// Returns FLOPs by row: the estimate of the pair (site, inputs[row] - 1), or 0 for other rows and
// where inputs[row] is 0. An op whose site is in `wrappers` (by site) gets 0 if ops inside it have
// FLOPs, to avoid counting them twice. Raises ValueError if sizes are inconsistent or an index is
// out of range.
inline Column<double> flops_by_row(const Capture& capture, const int32_t* inputs, size_t size,
                                   const SiteInputs& site_inputs,
                                   const std::vector<double>& estimates,
                                   const std::vector<bool>& wrappers) {
  const size_t rows = capture.size();
  const size_t sites = capture.sites.size();
  if (size != rows)
    raise<ValueError>("inputs must have one value per row: " + std::to_string(rows) + ", not " +
                      std::to_string(size));
  if (estimates.size() != site_inputs.size())
    raise<ValueError>("estimates must have one value per entry of site_inputs");
  if (wrappers.size() != sites) raise<ValueError>("wrappers must have one value per site");
  std::vector<std::vector<double>> estimate_of(sites);  // by site, then 1 + code
  for (size_t i = 0; i < site_inputs.size(); ++i) {
    const auto& [site, code] = site_inputs[i];
    if (site >= sites || code < 0) raise<ValueError>("a pair has an invalid site or inputs code");
    std::vector<double>& known = estimate_of[site];
    if (static_cast<size_t>(code) + 2 > known.size()) known.resize(static_cast<size_t>(code) + 2);
    known[static_cast<size_t>(code) + 1] = estimates[i];
  }
  Column<double> flops;
  flops.resize(rows);
  for (size_t row = 0; row < rows; ++row) {
    if (capture.site[row] >= sites)
      raise<ValueError>("capture row " + std::to_string(row) + ": invalid site index");
    const std::vector<double>& known = estimate_of[capture.site[row]];
    const auto code = static_cast<size_t>(inputs[row]);
    flops[row] = code < known.size() ? known[code] : 0;
  }
  if (std::find(wrappers.begin(), wrappers.end(), true) == wrappers.end()) return flops;
  std::vector<bool> counted(rows);  // an op inside has FLOPs of its own
  for (size_t row = rows; row-- > 0;) {
    const uint32_t site = capture.site[row];
    const bool covers = wrappers[site];
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
