// SPDX-License-Identifier: Apache-2.0
// DropCause: why an event that was produced is not in a capture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Why an event is missing. Each is counted per session; none is silent.
enum class DropCause : uint8_t {
  bound = 0,  // the session's max_bytes was reached (policy drop_newest, or nothing old enough to
              // overwrite)
  overwritten = 1,   // policy overwrite_oldest recycled it
  in_flight = 2,     // reserved at stop, not completed within 1 ms
  reentrant = 3,     // begun inside the recorder's own cold path (malloc hook, signal handler)
  thread_exit = 4,   // begun after the thread's storage had been retired too often
  clock = 5,         // stamped by a clock that went backwards
  spill_failed = 6,  // the spill file could not be written
  names = 7,  // recorded under a shared name because the bound of names was reached, or with a name
              // or string that was cut (not missing)
  ends = 8,   // the end of an async or moved range found no room (not missing, but shown as open)
};
constexpr size_t kNumDropCauses = 9;
// Counters of a session. Those without a cause are for libraries of a newer minor ABI.
constexpr size_t kMaxDropCauses = 16;

// Whether an event of this cause is missing, rather than incomplete. Of causes that this header
// does not know it is assumed.
constexpr bool is_missing(DropCause cause) noexcept {
  return cause != DropCause::names && cause != DropCause::ends;
}

inline const char* drop_cause_name(DropCause cause) noexcept {
  constexpr const char* names[kMaxDropCauses] = {
      "bound",        "overwritten", "in_flight", "reentrant", "thread_exit", "clock",
      "spill_failed", "names",       "ends",      "cause_9",   "cause_10",    "cause_11",
      "cause_12",     "cause_13",    "cause_14",  "cause_15"};
  const auto index = static_cast<size_t>(cause);
  return index < kMaxDropCauses ? names[index] : "unknown";
}

// Calls each(name, count) for each cause that this header knows, and for each other that was
// counted.
template <class Counts, class Each>
void for_each_drop_cause(const Counts& counts, Each each) {
  for (size_t i = 0; i < kMaxDropCauses; ++i)
    if (i < kNumDropCauses || counts[i] != 0)
      each(static_cast<DropCause>(i), static_cast<uint64_t>(counts[i]));
}

FASTPROF_NAMESPACE_END
