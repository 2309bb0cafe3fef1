// SPDX-License-Identifier: Apache-2.0
// Fork handling of the primitives; called by the leader's pthread_atfork handlers.
#pragma once

#include <pthread.h>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/process_primitives.hpp"
#include "fastprof/primitives/thread_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// In the prepare handler, before State::lock is taken (the lock order everywhere).
inline void lock_primitives_for_fork() noexcept {
  if (ProcessPrimitives* process = existing_process_primitives())
    ::pthread_mutex_lock(&process->lock);
}

// In the parent handler, after State::lock is released.
inline void unlock_primitives_after_fork() noexcept {
  if (ProcessPrimitives* process = existing_process_primitives())
    ::pthread_mutex_unlock(&process->lock);
}

// In the child handler, after State::lock is reinitialised. Thread-local callbacks are dropped:
// they belong to an observer in the parent, to which the child cannot report. Global callbacks,
// debug info and the enabled flag stay. The primitives of other threads, which do not exist in the
// child, are leaked once per fork.
inline void reset_primitives_in_child() noexcept {
  ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr) return;
  ::pthread_mutex_init(&process->lock, nullptr);
  if (ThreadPrimitives* primitives = existing_thread_primitives()) {
    (void)CallbackList::adopt(primitives->callbacks);
    primitives->callbacks = nullptr;
    invalidate_step_caches(primitives);
    primitives->thread_id = thread_block()->track->id;  // the child has a new track
  }
  const CallbackList global = CallbackList::share(process->callbacks);
  store_relaxed(&state()->callbacks_users, uint64_t{global.enabled() != 0});
  set_mask_bit(mask_bit::callbacks, global.enabled() != 0);
}

FASTPROF_NAMESPACE_END
