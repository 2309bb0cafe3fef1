// SPDX-License-Identifier: Apache-2.0
// Iteration over the thread states of the main interpreter.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Calls visit(PyThreadState*) for each thread of the main interpreter. GIL.
template <class Visit>
inline void for_each_thread(Visit&& visit) {
  for (PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Main());
       thread != nullptr; thread = PyThreadState_Next(thread))
    visit(thread);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
