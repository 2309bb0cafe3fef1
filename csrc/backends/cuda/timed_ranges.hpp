// SPDX-License-Identifier: Apache-2.0
// Timed ranges: makes Activities of ranges whose begin and end were recorded as CUDA events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/event_pool.hpp"
#include "fastprof/session/activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

// A range with an event before and one behind its work, on the same stream.
struct TimedRange {
  std::string name;
  std::shared_ptr<RecordedEvent> begin, end;
  uint64_t begin_ticks;  // at which the recorder recorded its begin
  uint64_t end_order;    // of all ranges, by their ends
  uint32_t thread;       // kernel's id
};

// A range's device time is that of the stream from one event to the other, less that of the ranges
// inside: a row for each part in between, so that rows of a stream do not overlap and their sum is
// the outermost range's time. Waits for the devices of the ranges; then an event at a known time of
// ours is what their time is aligned with. (At the begin, that would create a context on each
// device.) What could not be read is counted as dropped and told in `problems`.
Activities activities_of(EventPool& pool,
                         const std::vector<std::shared_ptr<const TimedRange>>& ranges,
                         double ticks_per_us, std::vector<std::string>& problems);

}  // namespace cuda
FASTPROF_NAMESPACE_END
