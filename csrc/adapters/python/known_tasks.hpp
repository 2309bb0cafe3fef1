// SPDX-License-Identifier: Apache-2.0
// The tasks whose switches are recorded: their ids and names.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Records that the calling thread runs this task, or (ended) that the task has ended, after which
// it is forgotten. Returns false without memory. GIL; sets no error.
bool record_task(PyObject* task, bool ended) noexcept;

// Records that the calling thread runs a task that is being constructed, of which only the
// coroutine is known (null: nothing). As record_task().
bool record_new_task(PyObject* task, PyObject* coroutine) noexcept;

// Whether an asyncio task (or future) has a result. GIL; sets no error.
bool is_task_done(PyObject* task) noexcept;

// Forgets all tasks. GIL.
void forget_tasks() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
