// SPDX-License-Identifier: Apache-2.0
// The begin of an op that few are like: async, a collective, the first of its thread, of a new
// forward thread, with more inputs than there is room for, beside counters, ...
#pragma once

#include "adapters/torch/op_names.hpp"
#include "adapters/torch/thread_ops.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Begins any op. `ops`, `name`: of the calling thread and of the op, null where they were not
// looked up. Null: not recorded.
FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_slow_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops,
    const OpName* name) noexcept;

// Once, before the first: what tells libtorch's number of the calling thread.
void set_current_thread_id(uint64_t (*current_thread_id)()) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
