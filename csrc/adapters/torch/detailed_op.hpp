// SPDX-License-Identifier: Apache-2.0
// The begin of an op with what somebody wants beside its name and times: inputs, stack, modules.
#pragma once

#include <functional>

#include "adapters/torch/module_hierarchy.hpp"
#include "adapters/torch/op_names.hpp"
#include "adapters/torch/op_record.hpp"
#include "adapters/torch/thread_ops.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Begins an op with what `wants` says (op_extra); the first one where that is inputs and nothing
// else. Null: not recorded.
FASTPROF_HOT FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_op_with_inputs(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops,
    const OpName* name) noexcept;
FASTPROF_HOT FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_detailed_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops, const OpName* name,
    uint32_t wants) noexcept;

// The Python stack and the modules of an op; 0: none wanted, or there is none.
struct OpOrigin {
  uint64_t stack = 0;
  uint64_t modules = 0;
};

// The op that encloses others must be one of libtorch's own, which lives on the C stack: a user's
// range is begun by one Python call and ended by another, and what called it may be gone meanwhile.
// Stacks grow downwards, so that what began before lies above.
FASTPROF_ALWAYS_INLINE OpOrigin origin_of(ThreadOps* ops, const void* rf, uint32_t wants,
                                          RecordScope scope) noexcept {
  OpOrigin origin;
  if ((wants & op_extra::stack) != 0) {
    EnclosingStack& enclosing = ops->enclosing;
    if (enclosing.op != nullptr && std::less<const void*>()(enclosing.op, rf))
      enclosing.op = nullptr;  // its end came to another thread
    origin.stack = load_relaxed(&g_capture_stack)(enclosing);
  }
  // Not of backward functions, as in PyTorch: they run outside of the interpreter.
  if ((wants & op_extra::modules) != 0 && scope != RecordScope::BACKWARD_FUNCTION)
    origin.modules = reinterpret_cast<uintptr_t>(current_modules());
  return origin;
}

FASTPROF_ALWAYS_INLINE void put_origin(BlockWords& blocks, const OpOrigin& origin) noexcept {
  if (origin.stack != 0) blocks.put(DetailType::python_stack, origin.stack);
  if (origin.modules != 0) blocks.put(DetailType::modules, origin.modules);
}

// An op that was begun is the one that encloses others, if its thread has none.
FASTPROF_ALWAYS_INLINE void enclose(ThreadOps* ops, OpContext* context, const void* rf,
                                    const OpOrigin& origin) noexcept {
  if (origin.stack == 0 || ops->enclosing.op != nullptr || context->is_async != 0 ||
      context->site->scope == RecordScope::USER_SCOPE)
    return;
  ops->enclosing.op = rf;
  context->encloses = true;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
