// SPDX-License-Identifier: Apache-2.0
// StackInUse: a hook that uses its CallStack again after it may have let the GIL go.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Number of such hooks. While it is not 0, the stacks of a tracing that ended are kept.
extern std::atomic<uint32_t> g_stacks_in_use;

// Held around what may run Python code (a garbage collection, for example), during which another
// thread may end the tracing. Only where that happens: a hook that finds all it needs takes none.
class StackInUse {
 public:
  StackInUse() noexcept { g_stacks_in_use.fetch_add(1); }
  ~StackInUse() { g_stacks_in_use.fetch_sub(1); }
  StackInUse(const StackInUse&) = delete;
  StackInUse& operator=(const StackInUse&) = delete;
};

// Without a GIL the tracing may end at any moment of a hook, so every one is counted, as a whole.
#if defined(Py_GIL_DISABLED)
using HookInUse = StackInUse;
#else
struct HookInUse {
  HookInUse() noexcept {}
};
#endif

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
