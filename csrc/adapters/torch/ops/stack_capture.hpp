// SPDX-License-Identifier: Apache-2.0
// Hook to capture the Python stack at the begin of an op; implemented by the bindings.
#pragma once

#include <cstdint>
#include <string_view>

#include "adapters/torch/layout/op_view.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The Python stack of an op that is still in progress on this thread. Its callers cannot change
// meanwhile, so an op inside it with the same innermost Python frame has the same stack. Owning
// thread only.
struct EnclosingStack {
  const void* op = nullptr;  // its RecordFunction, on the C stack; null: none
  uint64_t id = 0;
  // Position of the innermost Python frame; used by the capture function.
  const void* thread = nullptr;
  const void* frame = nullptr;
  intptr_t instruction = 0;
};

// Returns the id of the calling thread's Python stack, 0 if none; the id of `enclosing` if the
// stack is the same. If enclosing.op is null, fills the other members of `enclosing`. Called with
// or without the GIL.
using CaptureStack = uint64_t (*)(EnclosingStack& enclosing) noexcept;

// The capture function; null until stacks are first requested.
inline CaptureStack g_capture_stack = nullptr;

// Returns whether a function, by its short_function_name(), is one through which libtorch calls
// observers: these are the innermost frames of an op's native stack.
inline bool is_observing_function(std::string_view name) noexcept {
  for (const std::string_view own : {"at::RecordFunction::", "c10::Dispatcher::runRecordFunction",
                                     "c10::Dispatcher::callWithDispatchKeySlowPath<>",
                                     "c10::Dispatcher::sequenceNumberForRunningRecordFunction"})
    if (name.substr(0, own.size()) == own) return true;
  return false;
}

// Enables stack capture at the begin of ops; null disables it. Called by the bindings, which
// serialise.
inline void capture_stacks_with(CaptureStack capture) noexcept {
  if (capture != nullptr) store_relaxed(&g_capture_stack, capture);
  want_with_ops(op_extra::stack, capture != nullptr);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
