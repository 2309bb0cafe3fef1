// SPDX-License-Identifier: Apache-2.0
// The Python stack at the begin of an op, which only the bindings can see.
#pragma once

#include <cstdint>

#include "fastprof/recorder/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The id of the calling thread's Python stack, 0 for none. Called with or without the GIL.
using CaptureStack = uint64_t (*)() noexcept;

// Relaxed: what captures stacks while a session wants them, else null. Written by the bindings.
inline CaptureStack g_capture_stack = nullptr;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
