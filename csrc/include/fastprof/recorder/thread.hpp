// SPDX-License-Identifier: Apache-2.0
// What a thread has beside its records: its track, its primitives, its name.
#pragma once

#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/masks.hpp"
#include "fastprof/recorder/own_state.hpp"
#include "fastprof/recorder/track_name.hpp"

FASTPROF_NAMESPACE_BEGIN

// The calling thread's track, registered at first use. Null when this library is not attached or
// memory is exhausted.
inline Track* current_track() noexcept {
  ThreadBlock* block = thread_block();
  if (FASTPROF_LIKELY(block->track != nullptr)) return block->track;
  State* s = state();
  return s->functions != nullptr ? s->functions->track(s, block) : nullptr;
}

// The calling thread's primitives, made at first use in the pinned leader; null only where
// current_track() is.
inline ThreadPrimitives* thread_primitives() noexcept {
  ThreadBlock* block = thread_block();
  const Track* track = block->track;
  if (FASTPROF_LIKELY(track != nullptr && track->primitives != nullptr)) return track->primitives;
  State* s = state();
  return s->functions != nullptr ? s->functions->primitives(s, block) : nullptr;
}

// Names the calling thread in everything recorded from now on; at most 63 bytes are kept. Any
// thread.
inline void set_thread_name(std::string_view name) noexcept {
  if (Track* track = current_track()) set_track_name(state(), track, name.data(), name.size());
}

FASTPROF_NAMESPACE_END
