// SPDX-License-Identifier: Apache-2.0
// Begins ops in the uncommon cases: async, collective, first op of a thread or of a new forward
// thread, too many inputs, performance counters enabled, ...
#pragma once

#include "adapters/torch/ops/op_names.hpp"
#include "adapters/torch/ops/thread_ops.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Begins any op. `ops` and `name` may be null if not looked up. Returns null if the op is not
// recorded.
FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_slow_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops,
    const OpName* name) noexcept;

// Sets libtorch's function for the calling thread's id. Call once, before the first op.
void set_current_thread_id(uint64_t (*current_thread_id)()) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
