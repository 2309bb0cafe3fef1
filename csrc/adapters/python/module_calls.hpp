// SPDX-License-Identifier: Apache-2.0
// Records the calls of torch.nn.Module objects without tracing any other call. A function in C
// takes the place of the vectorcall function of torch.nn.Module.__call__, so that all other code of
// the program runs as it does without a profile.
//
// Where the calls of everything are traced as well (call_tracer.hpp), the calls recorded here are
// left out there. All functions but current_eager_modules() require the GIL.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Begins for one more profile; calls are recorded while a session wants category::python_module.
// call: torch.nn.Module.__call__. Returns false if it is not a function written in Python, or if
// another tool has replaced its vectorcall function. Throws std::bad_alloc.
bool start_module_calls(PyObject* call);

// Ends it for one profile. Sets no error.
void stop_module_calls() noexcept;

// Forgets the parent's recording in a forked child.
void forget_module_calls_in_child() noexcept;

// Returns true once for each call that is recorded here, when its frame begins: the tracer leaves
// that call out. module: its first argument.
bool is_recorded_module_call(PyObject* module) noexcept;

// The modules whose calls are in progress on the calling thread, outermost first:
// "Sequential_0.Linear_1". Null for none. Lives as long as the process. Any thread, with or without
// the GIL.
const char* current_eager_modules() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
