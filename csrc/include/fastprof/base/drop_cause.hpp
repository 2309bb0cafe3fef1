// SPDX-License-Identifier: Apache-2.0
// DropCause: why an event is missing from a capture, or incomplete.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Every lost or shortened event is counted per session under one of these.
enum class DropCause : uint8_t {
  bound = 0,         // max_bytes was reached, and nothing was old enough to overwrite
  overwritten = 1,   // recycled under policy overwrite_oldest
  in_flight = 2,     // reserved at the stop, but not written within 1 ms
  reentrant = 3,     // begun inside the recorder's slow path (malloc hook, signal handler)
  thread_exit = 4,   // begun on a thread that could not be registered (again)
  clock = 5,         // stamped by a clock that went backwards
  spill_failed = 6,  // the spill file could not be written
  names = 7,         // not missing: its name or string was shared or cut at max_name_bytes
  ends = 8,          // not missing: no room for the end of an async, moved or late range
  device = 9,        // an activity of a device, for which the device's buffers had no room
};
constexpr size_t kNumDropCauses = 10;
// Number of counters per session. Those above kNumDropCauses are for libraries of a newer ABI
// minor.
constexpr size_t kMaxDropCauses = 16;

// Whether the cause means that an event is missing rather than incomplete. True for causes that
// this header does not know.
constexpr bool is_missing(DropCause cause) noexcept {
  return cause != DropCause::names && cause != DropCause::ends;
}

// The cause's name, as printed in tables and traces; "cause_10" and so on for unknown ones.
inline const char* drop_cause_name(DropCause cause) noexcept {
  constexpr const char* names[kMaxDropCauses] = {
      "bound",        "overwritten", "in_flight", "reentrant", "thread_exit", "clock",
      "spill_failed", "names",       "ends",      "device",    "cause_10",    "cause_11",
      "cause_12",     "cause_13",    "cause_14",  "cause_15"};
  const auto index = static_cast<size_t>(cause);
  return index < kMaxDropCauses ? names[index] : "unknown";
}

// Calls each(cause, count) for each cause that this header knows, and for each other one that was
// counted.
template <class Counts, class Each>
void for_each_drop_cause(const Counts& counts, Each each) {
  for (size_t i = 0; i < kMaxDropCauses; ++i)
    if (i < kNumDropCauses || counts[i] != 0)
      each(static_cast<DropCause>(i), static_cast<uint64_t>(counts[i]));
}

FASTPROF_NAMESPACE_END
