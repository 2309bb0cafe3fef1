// SPDX-License-Identifier: Apache-2.0
// link_device_rows: finds out which range made each call of a device's runtime, and which call
// started each work on a device.
//
// Ranges do not record what they launch, so launching costs the recorder nothing. It is inferred: a
// call belongs to the range in which it nests, and work to the call with the same correlation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/correlation_index.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace device_rows {

// Position of the argument "correlation" in a site's arguments; SIZE_MAX: it has none.
inline size_t correlation_argument(const SiteInfo& site) {
  const auto at = std::find(site.arg_names.begin(), site.arg_names.end(), "correlation");
  return at == site.arg_names.end() ? SIZE_MAX : static_cast<size_t>(at - site.arg_names.begin());
}

}  // namespace device_rows

// Fills capture.device_links, from the nesting of calls among ranges and the correlations that
// calls and work have as arguments. The capture is complete otherwise. Of calls with the same
// correlation (a call of the runtime that makes one of the driver), the outermost, which comes
// first, counts.
inline void link_device_rows(Capture& capture) {
  constexpr uint32_t kCall = category::runtime, kWork = category::device;
  // Rows that cannot have made a call; the search goes on in their parents. As in PyTorch, calls of
  // Python functions launch nothing.
  constexpr uint32_t kSkipped = category::runtime | category::python_call | category::task;
  std::vector<size_t> argument(capture.sites.size(), SIZE_MAX);
  bool any = false;
  for (size_t i = 0; i < capture.sites.size(); ++i) {
    const SiteInfo& site = capture.sites[i];
    if (site.mask != kCall && site.mask != kWork) continue;
    argument[i] = device_rows::correlation_argument(site);
    any = true;
  }
  capture.device_links.clear();
  if (!any) return;
  const auto correlation_of = [&](uint32_t row) -> uint32_t {
    const size_t at = argument[capture.site[row]];
    if (at == SIZE_MAX || capture.payload[row] == kNoPayload) return 0;
    return static_cast<uint32_t>(capture.payload_words[capture.payload[row] + at]);
  };
  const auto mask_of = [&](size_t row) { return capture.sites[capture.site[row]].mask; };
  CorrelationIndex calls;  // -> index into device_links
  size_t rows = 0;
  for (size_t row = 0; row < capture.size(); ++row) rows += argument[capture.site[row]] != SIZE_MAX;
  capture.device_links.reserve(rows);
  for (size_t row = 0; row < capture.size(); ++row) {
    const uint32_t mask = mask_of(row);
    if (mask != kCall && mask != kWork) continue;
    DeviceLink link{static_cast<uint32_t>(row), -1, -1, correlation_of(static_cast<uint32_t>(row))};
    if (mask == kCall) {
      int32_t range = capture.parent[row];
      while (range >= 0 && (mask_of(static_cast<size_t>(range)) & kSkipped) != 0)
        range = capture.parent[static_cast<size_t>(range)];
      link.range = range;
      if (link.correlation != 0)
        calls.add(link.correlation, static_cast<uint32_t>(capture.device_links.size()));
    }
    capture.device_links.push_back(link);
  }
  calls.finish();
  for (DeviceLink& link : capture.device_links) {
    if (link.correlation == 0 || mask_of(link.row) == kCall) continue;
    const uint32_t call = calls.find(link.correlation);
    if (call == CorrelationIndex::kNone) continue;
    const DeviceLink& of_call = capture.device_links[call];
    link.call = static_cast<int32_t>(of_call.row);
    link.range = of_call.range;
  }
}

FASTPROF_NAMESPACE_END
