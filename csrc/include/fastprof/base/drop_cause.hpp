// SPDX-License-Identifier: Apache-2.0
// DropCause: why an event that was produced is not in a capture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Why an event is missing. Each is counted per session; none is silent.
enum class DropCause : uint8_t {
  bound = 0,         // max_bytes was reached, and nothing was old enough to overwrite
  overwritten = 1,   // policy overwrite_oldest recycled it
  in_flight = 2,     // reserved at stop, not completed within 1 ms
  reentrant = 3,     // begun inside the recorder's own cold path (malloc hook, signal handler)
  thread_exit = 4,   // begun after the thread's storage had been retired too often
  clock = 5,         // stamped by a clock that went backwards
  spill_failed = 6,  // the spill file could not be written
  names = 7,         // not missing: its name or string was shared or cut at the bound of names
  ends = 8,          // not missing: the end of an async or moved range found no room
};
constexpr size_t kNumDropCauses = 9;
// Counters of a session. Those without a cause are for libraries of a newer minor ABI.
constexpr size_t kMaxDropCauses = 16;

FASTPROF_NAMESPACE_END
