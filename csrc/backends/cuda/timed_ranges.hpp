// SPDX-License-Identifier: Apache-2.0
// Timed ranges: converts ranges whose begin and end were recorded as events to Activities.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/event_pool.hpp"
#include "fastprof/session/activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

// A range with an event before and an event after its work, on the same stream.
struct TimedRange {
  std::string name;
  std::shared_ptr<RecordedEvent> begin, end;
  uint64_t begin_ticks;  // the recorder's stamp of its begin
  uint64_t end_order;    // sequence number of its end, over all ranges
  uint32_t thread;       // kernel's id
};

// Converts ranges to rows. A range's device time is the stream's time between its two events, minus
// that of the ranges inside: it gets one row for each part in between, so that rows of a stream do
// not overlap and add up to the outermost range's time. Waits for the devices of the ranges, then
// records an event at a known time on each to align the device's clock. (At the begin, that would
// create a context on every device.) ticks_per_us: of the recorder's clock. Ranges that could not
// be read are counted as dropped and described in `problems`.
Activities activities_of(EventPool& pool,
                         const std::vector<std::shared_ptr<const TimedRange>>& ranges,
                         double ticks_per_us, std::vector<std::string>& problems);

}  // namespace cuda
FASTPROF_NAMESPACE_END
