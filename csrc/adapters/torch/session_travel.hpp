// SPDX-License-Identifier: Apache-2.0
// Thread-local sessions on the threads that libtorch gives a thread's work to (backward, fork,
// launch): membership lies in the debug info, which libtorch hands on, and is taken up by ops.
#pragma once

#include <cstdint>

#include "adapters/torch/thread_ops.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// What the calling thread gives away from here on belongs to the thread-local sessions that it
// belongs to now. Returns what stop_travel() takes; 0 when it is in none. Only after
// prepare_memory() has succeeded, else StateError.
uint64_t start_travel();
// Any thread.
void stop_travel(uint64_t travel) noexcept;

// In a forked child: no session is there.
void forget_travels_in_child() noexcept;

// At the begin of an op while a thread-local session exists: the calling thread belongs to the
// sessions that came with its work, until an op of other work begins.
void take_up_sessions(ThreadOps* ops) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
