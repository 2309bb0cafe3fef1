// SPDX-License-Identifier: Apache-2.0
// Per-thread data beside the records: the track, the primitives, the thread name.
#pragma once

#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/process/masks.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// The calling thread's track, registered at first use. Null if this library has not joined a
// recorder or memory is exhausted.
inline Track* current_track() noexcept {
  ThreadBlock* block = thread_block();
  if (FASTPROF_LIKELY(block->track != nullptr)) return block->track;
  State* s = state();
  return s->functions != nullptr ? s->functions->track(s, block) : nullptr;
}

// The calling thread's primitives, allocated at first use by the pinned leader. Null under the same
// conditions as current_track().
inline ThreadPrimitives* thread_primitives() noexcept {
  ThreadBlock* block = thread_block();
  const Track* track = block->track;
  if (FASTPROF_LIKELY(track != nullptr && track->primitives != nullptr)) return track->primitives;
  State* s = state();
  return s->functions != nullptr ? s->functions->primitives(s, block) : nullptr;
}

// Sets the calling thread's name in all captures from now on; `name` is cut at 63 bytes. Any
// thread.
inline void set_thread_name(std::string_view name) noexcept {
  State* s = state();
  Track* track = current_track();
  if (track != nullptr) s->functions->name_track(s, track, name.data(), name.size());
}

FASTPROF_NAMESPACE_END
