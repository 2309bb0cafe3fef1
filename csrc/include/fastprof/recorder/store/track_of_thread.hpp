// SPDX-License-Identifier: Apache-2.0
// The track of another thread: for events that one thread reports of another, which may never have
// recorded anything.
#pragma once

#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/store/track.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the id of the track of a live thread of this process, found by the kernel's thread id. A
// thread that has recorded nothing gets a track of this name without a block, which is freed once
// the thread has ended; if it records later, it gets another one. 0: the arena is exhausted. Any
// thread.
inline uint32_t track_of_thread(State* s, uint32_t tid, std::string_view name) noexcept {
  StateLock hold(s);
  Track* found = nullptr;
  for (Track* track = s->tracks; track != nullptr; track = track->next) {
    if (track->tid != tid || track->pid != s->pid || track->alive == 0 || track->is_signal != 0)
      continue;
    if (found == nullptr || track->block != nullptr) found = track;
  }
  if (found != nullptr) return found->id;
  Track* track = new_track(s);
  if (track == nullptr) return 0;
  track->tid = tid;
  set_track_text(track, name.data(), name.size(), "");
  return track->id;
}

FASTPROF_NAMESPACE_END
