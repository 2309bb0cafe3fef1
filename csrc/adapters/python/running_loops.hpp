// SPDX-License-Identifier: Apache-2.0
// The event loops that run on the threads of the interpreter, since CPython 3.14, where each thread
// state has its own loop and tasks. Older versions list all tasks in one set.
#pragma once

#include <Python.h>

#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Finds where thread states have their running loop: at the one word of the calling thread's state
// that is `marker`, an object that it has set as its running loop. Returns whether that is known.
// GIL; sets no error.
bool learn_running_loops(PyObject* marker) noexcept;

// Returns new references to the running loops of all threads; none if the place is unknown. GIL.
std::vector<PyObject*> running_loops();

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
