// SPDX-License-Identifier: Apache-2.0
// Names of drop causes, and which of them mean that an event is missing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"

FASTPROF_NAMESPACE_BEGIN

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
