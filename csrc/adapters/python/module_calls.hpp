// SPDX-License-Identifier: Apache-2.0
// Records the calls of torch.nn.Module objects without tracing any other call: a function in C
// replaces the vectorcall function of torch.nn.Module.__call__, so all other code runs as it does
// without a profile.
//
// If a profile traces all calls as well (call_tracer.hpp), the tracer omits the calls recorded
// here. All functions but current_eager_modules() require the GIL.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Starts recording for one more profile; calls are recorded while a session requests
// category::python_module. call: torch.nn.Module.__call__. Returns false if it is not a Python
// function, or if another tool has replaced its vectorcall function. Throws std::bad_alloc.
bool start_module_calls(PyObject* call);

// Stops recording for one profile. Sets no error.
void stop_module_calls() noexcept;

// Forgets the parent's recording in a forked child.
void forget_module_calls_in_child() noexcept;

// Returns true once for each call recorded here, when its frame begins, so that the tracer omits
// that call. module: the call's first argument.
bool is_recorded_module_call(PyObject* module) noexcept;

// Returns the path of the modules whose calls are in progress on the calling thread, outermost
// first: "Sequential_0.Linear_1". Null if there are none. Lives as long as the process. Any thread,
// with or without the GIL.
const char* current_eager_modules() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
