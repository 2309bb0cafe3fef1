// SPDX-License-Identifier: Apache-2.0
// Task switches of Python: which asyncio task (or task of another library) each thread runs,
// recorded so that ranges and calls nest by task (session/task_tracks.hpp).
//
// A step of a task written in C begins in one of two functions of CPython's _asyncio: the call of a
// TaskStepMethWrapper, and the method that the future it awaits calls back. Whatever event loop
// runs the task calls one of them. While a profile records tasks, both lead through here.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Stores the two functions. `step`: a TaskStepMethWrapper of `task`; `wakeup`: its callback on a
// future. Returns false if they do not have the expected layout. GIL; sets no error.
bool learn_task_steps(PyObject* task, PyObject* step, PyObject* wakeup) noexcept;
bool task_steps_known() noexcept;

// Begins or ends the recording of task switches for one more profile. GIL.
void start_task_switches() noexcept;
void stop_task_switches() noexcept;

// Forgets the parent's recording in a forked child. GIL.
void forget_task_switches_in_child() noexcept;

// For event loops whose tasks are not written in C: reports that the calling thread runs the task
// from now on, or has left it. `ended`: the task has ended. Calls nest. GIL; sets no error.
void enter_task(PyObject* task) noexcept;
void leave_task(PyObject* task, bool ended) noexcept;

// Reports that the calling thread runs this task, whose step began before the recording (null: no
// task). The end of that step cannot be observed, so the caller reports it with
// running_task_left(). `ended`: a task of another library has ended with it. GIL; sets no error.
void note_running_task(PyObject* task) noexcept;
void running_task_left(PyObject* task, bool ended) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
