// SPDX-License-Identifier: Apache-2.0
// Calls of lock.__enter__ by `with lock:`, which CPython <= 3.13 reports to no tracer: without
// them, time spent waiting for a lock would appear as the calling function's own.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// While on, calls of __enter__ of _thread.lock and _thread.RLock objects by `with` are recorded
// like explicit calls. Does nothing where the interpreter reports them itself, or where the method
// has an unexpected form. For the tracer, between install_hooks() and remove_hooks(). GIL.
void record_lock_entries(bool on) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
