// SPDX-License-Identifier: Apache-2.0
// Maps libtorch's thread ids to tracks. Grows with the number of threads that ran ops in a profile.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Maps `number` to the calling thread's track. `number` must be the result of libtorch's current
// thread id on this thread: a RecordFunction carries the id of the thread that made it, and may
// begin on another. Returns false if the thread has no track yet.
bool note_thread(uint64_t number) noexcept;

// Returns the id of the track; 0 for a thread that ran no op in a profile. Any thread.
uint32_t track_of(uint64_t number) noexcept;

// In a forked child, whose only thread has a new track: clears the map.
void forget_thread_numbers_in_child() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
