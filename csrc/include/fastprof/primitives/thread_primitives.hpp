// SPDX-License-Identifier: Apache-2.0
// ThreadPrimitives: what the instrumentation primitives keep for one thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/primitives/callback_list.hpp"
#include "fastprof/primitives/debug_info_chain.hpp"
#include "fastprof/primitives/process_primitives.hpp"
#include "fastprof/primitives/sampling.hpp"
#include "fastprof/primitives/step_cache.hpp"
#include "fastprof/recorder/clock.hpp"
#include "fastprof/recorder/thread.hpp"

#if FASTPROF_ASAN
extern "C" void __lsan_ignore_object(const void*);
#endif

FASTPROF_NAMESPACE_BEGIN

constexpr uint64_t kHandlesPerBlock = 1024;

// Storage for one dispatched FASTPROF_RANGE, kept for the next one.
struct RangeStorage {
  RangeStorage* next;
};

// Made by the leader at a thread's first use, deleted at its end. Own thread only. The layout is
// ABI: append only.
struct ThreadPrimitives {
  // Two switches, apart so that no compiler reads both in one load: that load would stall on the
  // store before it. `running` is only ever stored as a constant: a read-modify-write would chain
  // the time of one RecordFunction to the next.
  uint64_t disabled;  // enable_record_function(false): the recorder gets nothing either
  RangeStorage* free_storage;
  uint64_t running;      // inside a callback: others are not called
  uint64_t thread_id;    // Track::id of the thread
  uint64_t next_handle;  // next RecordFunction handle, while handles_left
  uint64_t handles_left;
  uint64_t storage_count;        // in free_storage
  CallbackListBlock* callbacks;  // thread-local ones, owned reference
  DebugInfoNode* debug_info;     // owned reference
  SamplingGenerator generator;
  ThreadPrimitives* next;  // in ProcessPrimitives::threads
  ThreadPrimitives* previous;
  uint64_t reserved[6];
  StepCache step_caches[kNumRecordScopes];
};

// Called by the leader only. `thread_id`: the id of the thread's track.
inline ThreadPrimitives* new_thread_primitives(uint64_t thread_id) {
  void* memory = std::calloc(1, sizeof(ThreadPrimitives));
  if (memory == nullptr) return nullptr;
#if FASTPROF_ASAN
  __lsan_ignore_object(memory);  // held by a Track only, whose mapping LeakSanitizer does not read
#endif
  auto* primitives = new (memory) ThreadPrimitives{};
  ProcessPrimitives* process = process_primitives();
  primitives->thread_id = thread_id;
  primitives->generator.state = raw_ticks() ^ (primitives->thread_id << 48);
  for (StepCache& cache : primitives->step_caches) cache.active = cache.inline_active;
  const PrimitivesLock lock(process);
  primitives->next = process->threads;
  if (process->threads != nullptr) process->threads->previous = primitives;
  process->threads = primitives;
  return primitives;
}

// Called by the leader only, on the thread itself (or in a forked child for a thread that is not
// there any more). May run destructors of users' debug info.
inline void delete_thread_primitives(ThreadPrimitives* primitives) {
  if (primitives == nullptr) return;
  for (StepCache& cache : primitives->step_caches) clear_step_cache(&cache);
  while (RangeStorage* storage = primitives->free_storage) {
    primitives->free_storage = storage->next;
    std::free(storage);
  }
  {
    CallbackList callbacks = CallbackList::adopt(primitives->callbacks);
    if (callbacks.enabled() != 0) remove_callbacks_user(process_primitives(), false);
  }
  DebugInfoNode* debug_info = primitives->debug_info;
  {
    ProcessPrimitives* process = process_primitives();
    const PrimitivesLock lock(process);
    (primitives->previous != nullptr ? primitives->previous->next : process->threads) =
        primitives->next;
    if (primitives->next != nullptr) primitives->next->previous = primitives->previous;
  }
  primitives->~ThreadPrimitives();
  std::free(primitives);
  // Last: user destructors may look at this thread's debug info, which is empty by now.
  (void)DebugInfoChain::adopt(debug_info);
}

// The calling thread's, or null when it has not used the primitives yet. Never allocates.
FASTPROF_ALWAYS_INLINE ThreadPrimitives* existing_thread_primitives() noexcept {
  const Track* track = thread_block()->track;
  return track != nullptr ? track->primitives : nullptr;
}

// Logical id of the calling thread: Track::id, so that what is recorded under it can be found in a
// Capture. Positive and unique over the process's life; 0 at the thread's very end.
inline uint64_t current_thread_id() noexcept {
  const ThreadPrimitives* primitives = thread_primitives();
  return primitives != nullptr ? primitives->thread_id : 0;
}

// The next RecordFunction handle: unique over the process's life, never 0.
inline uint64_t next_record_handle(ThreadPrimitives* primitives) noexcept {
  if (FASTPROF_UNLIKELY(primitives->handles_left == 0)) {
    const uint64_t block =
        __atomic_fetch_add(&process_primitives()->next_id_block, 1, __ATOMIC_RELAXED);
    primitives->next_handle = 1 + block * kHandlesPerBlock;
    primitives->handles_left = kHandlesPerBlock;
  }
  --primitives->handles_left;
  return primitives->next_handle++;
}

inline void stale_step_caches(ThreadPrimitives* primitives) noexcept {
  for (StepCache& cache : primitives->step_caches) cache.version_plus_1 = 0;
}

// Replaces the thread-local callbacks; returns the former ones.
inline CallbackList exchange_thread_callbacks(ThreadPrimitives* primitives,
                                              CallbackList callbacks) noexcept {
  CallbackList former = CallbackList::adopt(primitives->callbacks);
  const bool had = former.enabled() != 0, has = callbacks.enabled() != 0;
  const bool same = former.begin() == callbacks.begin();
  primitives->callbacks = callbacks.detach();
  if (!same) stale_step_caches(primitives);
  if (has && !had) add_callbacks_user(process_primitives(), false);
  if (had && !has) remove_callbacks_user(process_primitives(), false);
  return former;
}

FASTPROF_NAMESPACE_END
