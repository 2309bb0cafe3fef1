// SPDX-License-Identifier: Apache-2.0
// The functions that take the place of ITT's: tasks, markers, events, frames, counters, names.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {

// Calls that are not in the list keep ITT's own function, which does nothing.
struct CollectedCall {
  const char* name;  // as in ApiInfo
  void* function;
};

constexpr unsigned kCollectedCalls = 34;
extern const CollectedCall collected_calls[kCollectedCalls];

}  // namespace itt
FASTPROF_NAMESPACE_END
