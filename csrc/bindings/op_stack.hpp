// SPDX-License-Identifier: Apache-2.0
// The Python stack of a thread that runs an op: most ops run without the GIL.
#pragma once

#include <cstdint>

#include "adapters/torch/stack_capture.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// As capture_python_stack, with or without the GIL; 0 on a thread that runs no Python. A thread
// that has let the GIL go stands still as Python sees it, so that its frames can be walked without;
// for a stack that was not met before the GIL is taken, to keep its code alive.
// `enclosing`: see adapters/torch/stack_capture.hpp.
uint64_t capture_op_stack(torch_adapter::EnclosingStack& enclosing) noexcept;

}  // namespace bindings
FASTPROF_NAMESPACE_END
