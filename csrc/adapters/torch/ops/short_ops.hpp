// SPDX-License-Identifier: Apache-2.0
// Ops below a duration are left out of a flight recorder, so that its memory reaches further back:
// at its end, the record of such an op is given back, and the next record takes its place. Its time
// is then the own time of what ran it.
//
// An op is kept if its thread has recorded anything since it began, such as a longer op in it, and
// while a session pins the chunk: profiles beside the recorder are complete.
#pragma once

#include <cstdint>

#include "adapters/torch/layout/record_function_layout.hpp"
#include "adapters/torch/ops/thread_ops.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Leaves out ops that take less than `shortest_ns` from now on; 0: none. Returns false, and leaves
// out none, if stamps are not those of the tick counter. Any thread; takes 2 ms to measure the
// clock.
bool leave_out_ops_below(uint64_t shortest_ns) noexcept;

// Returns the duration that is in force. Any thread.
uint64_t shortest_op_ns() noexcept;

// How many ops were left out in this process, to within 64 a running thread. Any thread.
uint64_t ops_left_out() noexcept;

// At the end of a thread: adds what it has not added yet.
void add_left_out(ThreadOps* ops) noexcept;

// At the end of an op, while OpView::shortest_ticks is set: gives its record back if it is to be
// left out, and returns whether it did.
FASTPROF_HOT bool leave_out(const RecordFunctionView& record_function,
                            const OpContext& context) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
