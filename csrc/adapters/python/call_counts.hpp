// SPDX-License-Identifier: Apache-2.0
// Bounds the cost of recording every call (CallFilter::sum_frequent): calls of functions that are
// called very often are counted instead of recorded, so their time belongs to their callers.
//
// The rule, per function: after each 1,000 calls, the mean distance in time between calls is
// computed. While it is below 20 us, calls of the function are only counted. The bound doubles with
// every 200,000 recorded calls, so that the size of a recording grows with the logarithm of its
// length. A function whose calls become less frequent is recorded again. The distance of two calls
// is at least the duration of a non-recursive call, so counted calls are short on average.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Counts one call of the function with this site. Returns whether to record it; true if memory is
// exhausted. GIL.
bool count_call(const Site* site) noexcept;

// Returns (name, number of calls that were only counted) for each function with such calls. GIL.
// Call while the session that recorded them runs.
std::vector<std::pair<std::string, uint64_t>> summed_calls();

// Clears all counts. Call before sites of another session are counted. GIL.
void forget_call_counts() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
