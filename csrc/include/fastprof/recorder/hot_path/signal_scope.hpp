// SPDX-License-Identifier: Apache-2.0
// signal_scope: makes recording in a signal handler exact. The handler's records go to a separate
// track, so they cannot collide with a record that the interrupted code is writing.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/record.hpp"

FASTPROF_NAMESPACE_BEGIN

// Construct it first in a signal handler that records. It nests if handlers interrupt handlers. If
// the signal arrived in the recorder's slow path, it does nothing, and the handler's records are
// counted as `reentrant`. No cost outside handlers. Handlers without it may lose records (up to 5 %
// at 50 kHz) but never corrupt memory.
class signal_scope {
 public:
  signal_scope() noexcept {
    State* s = state();
    ThreadBlock* block = thread_block();
    Track* track = block->track;
    if (track == nullptr || (block->flags & thread_flag::busy) != 0 || track->block == nullptr)
      return;
    Track* signal =
        track->signal != nullptr ? track->signal : s->functions->signal_track(s, block, track);
    if (signal == nullptr) return;
    interrupted_ = track;
    limit_ = block->limit;
    signal->primitives = track->primitives;
    if (signal->local_sessions != track->local_sessions ||
        signal->local_newest_id != track->local_newest_id) {
      signal->local_sessions = track->local_sessions;
      signal->local_newest_id = track->local_newest_id;
      signal->suspended_limit = 0;  // its next chunk begins with the thread's membership
    }
    // Release stores (partner: the acquire loads of suspended_cursor, then cursor, in
    // chunk_written_end).
    store_release(&track->suspended_cursor, block->cursor);
    block->limit = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    block->track = signal;
    store_release(&block->cursor, load_relaxed(&signal->suspended_cursor));
    store_release(&signal->suspended_cursor, uintptr_t{0});
    block->limit = signal->suspended_limit;
  }
  ~signal_scope() {
    if (interrupted_ == nullptr) return;
    ThreadBlock* block = thread_block();
    Track* signal = block->track;
    signal->suspended_limit = block->limit;
    signal->primitives = nullptr;
    block->limit = 0;
    store_release(&signal->suspended_cursor, block->cursor);
    block->track = interrupted_;
    store_release(&block->cursor, load_relaxed(&interrupted_->suspended_cursor));
    store_release(&interrupted_->suspended_cursor, uintptr_t{0});
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    block->limit = limit_;
  }
  signal_scope(const signal_scope&) = delete;
  signal_scope& operator=(const signal_scope&) = delete;

 private:
  Track* interrupted_ = nullptr;
  uintptr_t limit_ = 0;
};

FASTPROF_NAMESPACE_END
