// SPDX-License-Identifier: Apache-2.0
// Names and tracks of threads, as `threading` has them.
#pragma once

#include <Python.h>

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Names the calling thread's track as `threading` does, at its first range from Python, unless it
// was named before. Requires the GIL; raises nothing.
void name_thread_once() noexcept;
// Names it and returns true, if `threading` knows the thread or it was named before. The same
// rules.
bool name_thread() noexcept;
// Keeps name_thread_once() from naming this thread, which has a name.
void mark_thread_named() noexcept;

// Returns the id of the track of another thread, which may have recorded nothing so far; 0 if its
// kernel id is unknown or memory is exhausted. GIL; raises nothing.
uint32_t track_of(PyThreadState* thread) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
