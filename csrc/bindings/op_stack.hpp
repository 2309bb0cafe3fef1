// SPDX-License-Identifier: Apache-2.0
// Captures the Python stack of a thread that runs an op; most ops run without the GIL.
#pragma once

#include <cstdint>

#include "adapters/torch/ops/stack_capture.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// As capture_python_stack, but callable with or without the GIL; 0 on a thread that runs no Python.
// The frames of a thread that released the GIL do not change, so they are walked without it. The
// GIL is taken only for a stack that is not known yet, to keep its code objects alive. `enclosing`:
// see adapters/torch/ops/stack_capture.hpp.
uint64_t capture_op_stack(torch_adapter::EnclosingStack& enclosing) noexcept;

}  // namespace bindings
FASTPROF_NAMESPACE_END
