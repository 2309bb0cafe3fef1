// SPDX-License-Identifier: Apache-2.0
// What fork means for the primitives; called by the leader's atfork handlers.
#pragma once

#include <pthread.h>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/process_primitives.hpp"
#include "fastprof/primitives/thread_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// In prepare, before State::lock is taken (the order everywhere).
inline void lock_primitives_for_fork() noexcept {
  if (ProcessPrimitives* process = existing_process_primitives())
    ::pthread_mutex_lock(&process->lock);
}

// In the parent, after State::lock is released.
inline void unlock_primitives_after_fork() noexcept {
  if (ProcessPrimitives* process = existing_process_primitives())
    ::pthread_mutex_unlock(&process->lock);
}

// In the child, after State::lock is a fresh lock again. The child inherits no thread-local
// callbacks: they observe for a parent that the child cannot report to. Global callbacks, debug
// info and the switch stay. Other threads' primitives are gone with them (leaked, once a fork).
inline void reset_primitives_in_child() noexcept {
  ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr) return;
  ::pthread_mutex_init(&process->lock, nullptr);
  if (ThreadPrimitives* primitives = existing_thread_primitives()) {
    (void)CallbackList::adopt(primitives->callbacks);
    primitives->callbacks = nullptr;
    stale_step_caches(primitives);
    primitives->thread_id = thread_block()->track->id;  // the child's track is a new one
  }
  const CallbackList global = CallbackList::share(process->callbacks);
  store_relaxed(&state()->callbacks_users, uint64_t{global.enabled() != 0});
  set_mask_bit(mask_bit::callbacks, global.enabled() != 0);
}

FASTPROF_NAMESPACE_END
