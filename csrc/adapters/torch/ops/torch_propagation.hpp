// SPDX-License-Identifier: Apache-2.0
// Propagates thread-local sessions to the threads that run a thread's work (backward, fork,
// launch): the membership is stored in the debug info, which libtorch propagates, and ops apply it.
#pragma once

#include <cstdint>

#include "adapters/torch/ops/thread_ops.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// From here on, work that the calling thread launches belongs to the thread-local sessions it is in
// now. Returns an id for stop_propagation(); 0 if the thread is in none. Raises StateError unless
// prepare_memory() has succeeded.
uint64_t start_propagation();
// Any thread.
void stop_propagation(uint64_t id) noexcept;

// In a forked child: drops all propagations.
void forget_propagation_in_child() noexcept;

// Called at the begin of an op while a thread-local session exists: adds the calling thread to the
// sessions propagated with its current work, until an op of other work begins.
void take_up_sessions(ThreadOps* ops) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
