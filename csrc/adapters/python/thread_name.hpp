// SPDX-License-Identifier: Apache-2.0
// Names of threads, taken from `threading`, and tracks of threads.
#pragma once

#include <Python.h>

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Names the calling thread's track as `threading` does, on its first range from Python, unless it
// has a name. Requires the GIL; raises nothing.
void name_thread_once() noexcept;
// As name_thread_once(). Returns true if the track has a name now, and false if `threading` does
// not know the thread yet.
bool name_thread() noexcept;
// Makes name_thread_once() skip this thread, which has a name already.
void mark_thread_named() noexcept;

// Returns the id of the track of another thread, which may have recorded nothing so far; 0 if its
// kernel id is unknown or memory is exhausted. GIL; raises nothing.
uint32_t track_of(PyThreadState* thread) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
