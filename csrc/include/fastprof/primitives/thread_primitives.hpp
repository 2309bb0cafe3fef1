// SPDX-License-Identifier: Apache-2.0
// ThreadPrimitives: per-thread data of the instrumentation primitives.
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
#include "fastprof/primitives/thread_identity.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/clock.hpp"

#if FASTPROF_ASAN
extern "C" void __lsan_ignore_object(const void*);
#endif

FASTPROF_NAMESPACE_BEGIN

constexpr uint64_t kHandlesPerBlock = 1024;

// Allocated by the leader at a thread's first use and freed at thread exit. Own thread only. The
// layout is ABI: append only.
struct ThreadPrimitives : ThreadPrimitivesHead {
  SamplingGenerator generator;
  ThreadPrimitives* next;  // links of ProcessPrimitives::threads
  ThreadPrimitives* previous;
  uint64_t reserved[6];
  StepCache step_caches[kNumRecordScopes];
};

// Allocates the primitives of a thread; null if memory is exhausted. Called by the leader only.
// `thread_id`: id of the thread's track.
inline ThreadPrimitives* new_thread_primitives(uint64_t thread_id) {
  void* memory = std::calloc(1, sizeof(ThreadPrimitives));
  if (memory == nullptr) return nullptr;
#if FASTPROF_ASAN
  __lsan_ignore_object(memory);  // held only by a Track, whose mapping LeakSanitizer does not scan
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

// Frees the primitives of a thread. Called by the leader only, on the thread itself, or in a forked
// child for a thread that no longer exists. May run destructors of users' debug info.
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
  // Last: user destructors may read this thread's debug info, which is empty by now.
  (void)DebugInfoChain::adopt(debug_info);
}

// Returns the next RecordFunction handle: unique over the life of the process, never 0.
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

// Makes the thread's next RecordFunction of each scope rebuild its step cache.
inline void invalidate_step_caches(ThreadPrimitives* primitives) noexcept {
  for (StepCache& cache : primitives->step_caches) cache.version_plus_1 = 0;
}

// Replaces the thread-local callbacks and returns the former list.
inline CallbackList exchange_thread_callbacks(ThreadPrimitives* primitives,
                                              CallbackList callbacks) noexcept {
  CallbackList former = CallbackList::adopt(primitives->callbacks);
  const bool had = former.enabled() != 0, has = callbacks.enabled() != 0;
  const bool same = former.begin() == callbacks.begin();
  primitives->callbacks = callbacks.detach();
  if (!same) invalidate_step_caches(primitives);
  if (has && !had) add_callbacks_user(process_primitives(), false);
  if (had && !has) remove_callbacks_user(process_primitives(), false);
  return former;
}

FASTPROF_NAMESPACE_END
