// SPDX-License-Identifier: Apache-2.0
// Moves threads into the backing file: a thread that recorded earlier has a current chunk outside
// it, which would take up to 2700 records more.
#pragma once

#include <sched.h>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/process/membarrier.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/store/backing_file.hpp"

FASTPROF_NAMESPACE_BEGIN

// Whether the track's thread could write its next record outside the file without a refill.
// State::lock held.
inline bool writes_outside(const State* s, const Track* track) noexcept {
  const Chunk* chunk = track->newest;
  if (track->alive == 0 || track->block == nullptr || chunk == nullptr ||
      chunk->place != ChunkPlace::current)
    return false;
  return !in_current_file(s, slab_of(chunk));
}

// Makes the next record of each such thread take a new chunk, by setting its block's limit to 0.
// The thread itself restores a limit it has saved while it is inside the recorder (BusyScope,
// signal_scope), so the store is repeated until, behind a barrier, no thread is there and every
// limit is 0. Threads for which that takes over 2 ms are counted in the header. No lock held.
inline void move_threads_into_file(State* s) noexcept {
  ThreadBlock* own = thread_block();
  const int64_t until = platform::monotonic_ns() + 2000000;
  bool barrier = false;
  for (;;) {
    uint32_t unsettled = 0;
    bool stored = false;
    {
      ScopedLock hold(s->lock);
      for (Track* track = s->tracks; track != nullptr; track = track->next) {
        if (!writes_outside(s, track)) continue;
        ThreadBlock* block = track->block;
        const bool busy = block != own && (load_relaxed(&block->flags) & thread_flag::busy) != 0;
        const bool in_signal = load_relaxed(&track->suspended_cursor) != 0;
        if (load_relaxed(&block->limit) != 0) {
          store_relaxed(&block->limit, uintptr_t{0});
          stored = true;
        }
        if (block != own && (busy || in_signal || !barrier)) ++unsettled;
      }
      const bool late = platform::monotonic_ns() > until;
      if ((unsettled == 0 && !stored) || (late && barrier)) {
        s->backing_file->header->threads_outside = s->backing_file->threads_outside = unsettled;
        return;
      }
    }
    process_barrier(s);
    barrier = true;
    ::sched_yield();
  }
}

FASTPROF_NAMESPACE_END
