// SPDX-License-Identifier: Apache-2.0
// The tasks whose switches are recorded: their ids and names.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Records that the calling thread runs this task, or (ended) that the task has ended; its entry is
// then removed. Returns false without memory. GIL; sets no error.
bool record_task(PyObject* task, bool ended) noexcept;

// Records that the calling thread runs a task that is being constructed, of which only the
// coroutine is known (null: nothing). As record_task().
bool record_new_task(PyObject* task, PyObject* coroutine) noexcept;

// Finds out how tasks of a type report that they have ended, which makes is_task_done() cheap for
// them. Call once, before the first step is recorded. GIL; sets no error.
void learn_task_state(PyTypeObject* type) noexcept;

// Returns whether an asyncio task or future is done: has a result or exception, or was cancelled.
// GIL; sets no error.
bool is_task_done(PyObject* task) noexcept;

// Removes the entries of all tasks. GIL.
void forget_tasks() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
