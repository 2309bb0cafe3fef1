// SPDX-License-Identifier: Apache-2.0
// Which of our threads libtorch calls by which number. Grows with the threads that have run ops in
// a profile.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The calling thread has this number in libtorch, which must be asked for it here: a RecordFunction
// may begin on another thread than made it, whose number it carries. False while the thread has no
// track.
bool note_thread(uint64_t number) noexcept;

// Our id of its track; 0 for a thread that has run no op in a profile. Any thread.
uint32_t track_of(uint64_t number) noexcept;

// In a forked child, whose only thread has another track than in its parent: none is known.
void forget_thread_numbers_in_child() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
