// SPDX-License-Identifier: Apache-2.0
// Calls of lock.__enter__ by `with lock:`, of which CPython <= 3.13 tells no tracer: a thread that
// waits there would seem to run its function's own code.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// While on, `with` records the calls of __enter__ of _thread.lock and _thread.RLock objects, like
// those that code makes by itself. Does nothing where the interpreter reports them, or where their
// method has another form. For the tracer, between install_hooks() and remove_hooks(). GIL.
void record_lock_entries(bool on) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
