// SPDX-License-Identifier: Apache-2.0
// The functions that replace ITT's: tasks, markers, events, frames, counters, names.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {

// A replaced function. Functions that are not in the list keep ITT's own, which does nothing.
struct CollectedCall {
  const char* name;  // as in ApiInfo
  void* function;
};

constexpr unsigned kCollectedCalls = 34;
extern const CollectedCall collected_calls[kCollectedCalls];

// Registers a handler for forked children, which renews the locks of the calls, and the tables that
// another thread of the parent may have been changing. Later calls do nothing. Any thread.
void watch_forks_of_calls() noexcept;

}  // namespace itt
FASTPROF_NAMESPACE_END
