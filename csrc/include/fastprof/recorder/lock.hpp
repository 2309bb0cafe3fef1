// SPDX-License-Identifier: Apache-2.0
// The recorder's two locks, held by scope. Order: State::drain_lock before State::lock.
#pragma once

#include <pthread.h>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Marks the calling thread as inside the recorder: a range begun meanwhile (an annotated malloc, a
// signal handler) is counted as reentrant instead of taking a lock this thread holds. Nests.
class BusyScope {
 public:
  // The flag goes up before the limit is read: a signal handler in between may record, but can take
  // no new chunk, so the limit kept here still belongs to the cursor.
  explicit BusyScope(ThreadBlock* block) noexcept
      : block_(block), was_(block->flags & thread_flag::busy) {
    block_->flags |= thread_flag::busy;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    limit_ = block_->limit;
    block_->limit = 0;  // sends every record to the slow path, which looks at the flag
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~BusyScope() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    block_->limit = limit_;
    block_->flags = (block_->flags & ~thread_flag::busy) | was_;
  }
  BusyScope(const BusyScope&) = delete;
  BusyScope& operator=(const BusyScope&) = delete;

  // The limit to leave behind.
  void set_limit(uintptr_t limit) noexcept { limit_ = limit; }

 private:
  ThreadBlock* block_;
  uint32_t was_;
  uintptr_t limit_;
};

class ScopedLock {
 public:
  explicit ScopedLock(pthread_mutex_t& mutex) noexcept : mutex_(&mutex) {
    pthread_mutex_lock(mutex_);
  }
  ~ScopedLock() { pthread_mutex_unlock(mutex_); }
  ScopedLock(const ScopedLock&) = delete;
  ScopedLock& operator=(const ScopedLock&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

// State::lock, by a thread that may be profiled itself.
class StateLock {
 public:
  explicit StateLock(State* s) noexcept : busy_(thread_block()), hold_(s->lock) {}

 private:
  BusyScope busy_;
  ScopedLock hold_;
};

FASTPROF_NAMESPACE_END
