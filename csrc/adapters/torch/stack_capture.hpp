// SPDX-License-Identifier: Apache-2.0
// The Python stack at the begin of an op, which only the bindings can see.
#pragma once

#include <cstdint>

#include "adapters/torch/op_view.hpp"
#include "fastprof/recorder/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The Python stack at the begin of an op that is still in progress on this thread: what it was
// called from stands still meanwhile, so that an op inside it at the same Python frame has the same
// stack. Owning thread.
struct EnclosingStack {
  const void* op = nullptr;  // its RecordFunction, on the C stack; null: there is none
  uint64_t id = 0;
  // Where the innermost Python frame stood; for who captures.
  const void* thread = nullptr;
  const void* frame = nullptr;
  intptr_t instruction = 0;
};

// The id of the calling thread's Python stack, 0 for none; that of `enclosing` where it is the
// same. Fills `enclosing`, all but `op`, when it has no op. Called with or without the GIL.
using CaptureStack = uint64_t (*)(EnclosingStack& enclosing) noexcept;

// What captures stacks, once somebody has wanted them.
inline CaptureStack g_capture_stack = nullptr;

// Ops begin with `capture` from here on, until null is given. The bindings, which serialise.
inline void capture_stacks_with(CaptureStack capture) noexcept {
  if (capture != nullptr) store_relaxed(&g_capture_stack, capture);
  want_with_ops(op_extra::stack, capture != nullptr);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
