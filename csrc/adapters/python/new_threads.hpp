// SPDX-License-Identifier: Apache-2.0
// Threads that C code starts, for CPython <= 3.11, where a profile function is set for each thread:
// reports a thread before it runs its first Python frame.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Calls `started(thread)` on each thread of the main interpreter that begins from now on, with the
// GIL, before its first Python frame runs. `started` must not run Python code and must not set an
// error. Does nothing if another tool has replaced the hook since an earlier call. GIL.
void watch_new_threads(void (*started)(PyThreadState* thread)) noexcept;

// Ends that; does nothing if it is not active. GIL.
void end_watch_of_new_threads() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
