// SPDX-License-Identifier: Apache-2.0
// A bound on what recording every call costs (CallFilter::sum_frequent): calls of functions that
// are called very often are counted instead of recorded, so that their time is their callers'.
//
// The rule, per function: after each 1,000 calls, their mean distance in time is computed. While it
// is below 20 us, calls of the function are counted only. The bound doubles with every 200,000
// calls recorded, so that the size of a recording grows with the logarithm of its length. A
// function whose calls become rarer is recorded again. The distance of two calls is at least the
// duration of a call that is not recursive, so what is counted is short on average.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Counts one call of the function with this site. Returns whether it is to be recorded; true
// without memory. GIL.
bool count_call(const Site* site) noexcept;

// (name, number of calls that were counted only) of each function that has some. GIL. While the
// session runs that recorded them.
std::vector<std::pair<std::string, uint64_t>> summed_calls();

// Forgets all counts; before sites of another session are counted. GIL.
void forget_call_counts() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
