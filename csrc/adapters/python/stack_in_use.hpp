// SPDX-License-Identifier: Apache-2.0
// StackInUse: marks a hook that accesses its CallStack again after it may have released the GIL.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Number of StackInUse objects. While it is not 0, the stacks of a tracing that has ended are kept.
extern std::atomic<uint32_t> g_stacks_in_use;

// Held around code that may run Python (a garbage collection, for example), during which another
// thread may end the tracing. A hook that takes only fast paths needs none.
class StackInUse {
 public:
  StackInUse() noexcept { g_stacks_in_use.fetch_add(1); }
  ~StackInUse() { g_stacks_in_use.fetch_sub(1); }
  StackInUse(const StackInUse&) = delete;
  StackInUse& operator=(const StackInUse&) = delete;
};

// Without a GIL, the tracing may end at any moment, so every hook is counted for its whole
// duration.
#if defined(Py_GIL_DISABLED)
using HookInUse = StackInUse;
#else
struct HookInUse {
  HookInUse() noexcept {}
};
#endif

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
