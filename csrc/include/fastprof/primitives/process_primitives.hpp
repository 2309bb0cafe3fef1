// SPDX-License-Identifier: Apache-2.0
// ProcessPrimitives: process-wide data of the instrumentation primitives, reached through
// State::global_callbacks.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"

FASTPROF_NAMESPACE_BEGIN

struct CallbackListBlock;
struct SlotRegistryBlock;
struct ThreadPrimitives;

constexpr unsigned kMaxReportedFailures = 32;

// Allocated at first use by any library and never freed, so it outlives that library. The layout is
// ABI: append only. "(lock)" marks what the lock guards.
struct ProcessPrimitives {
  pthread_mutex_t lock;           // held briefly, never across user code; taken before State::lock
  CallbackListBlock* callbacks;   // global callbacks (lock)
  SlotRegistryBlock* slots;       // registered thread-local slots (lock)
  uint64_t next_callback_handle;  // relaxed
  uint64_t next_slot_handle;      // relaxed
  uint64_t reserved_word;         // zero
  uint64_t next_id_block;         // relaxed: RecordFunction handles are handed out in blocks
  uint32_t enabled_callbacks;     // in `callbacks`; a hint read without the lock (relaxed)
  uint32_t reported_count;        // (lock)
  void (*reported[kMaxReportedFailures])();  // callbacks whose exception was reported (lock)
  const void* device_stubs[4];  // legacy/device_stubs.hpp: by DeviceStubsKind (release, acquire)
  ThreadPrimitives* threads;    // list of all; keeps them reachable for leak checkers (lock)
  uint64_t reserved[11];
};

// Holds ProcessPrimitives::lock for a scope. The lock also guards State::callbacks_users.
class PrimitivesLock {
 public:
  explicit PrimitivesLock(ProcessPrimitives* process) noexcept : process_(process) {
    ::pthread_mutex_lock(&process_->lock);
  }
  ~PrimitivesLock() { ::pthread_mutex_unlock(&process_->lock); }
  PrimitivesLock(const PrimitivesLock&) = delete;
  PrimitivesLock& operator=(const PrimitivesLock&) = delete;

 private:
  ProcessPrimitives* process_;
};

// Returns the process's primitives, or null if they were never used. Acquire; partner: the
// compare-and-swap below.
inline ProcessPrimitives* existing_process_primitives() noexcept {
  return static_cast<ProcessPrimitives*>(load_acquire(&state()->global_callbacks));
}

// Returns the process's primitives, allocating them at first use. Any thread. Raises Error if
// memory is exhausted, which terminates the program where the caller is noexcept.
inline ProcessPrimitives* process_primitives() {
  if (ProcessPrimitives* existing = existing_process_primitives()) return existing;
  void* memory = std::calloc(1, sizeof(ProcessPrimitives));
  if (memory == nullptr) raise<Error>("out of memory for the RecordFunction registry");
  auto* made = new (memory) ProcessPrimitives{};
  ::pthread_mutex_init(&made->lock, nullptr);
  void* expected = nullptr;
  // Release, for the contents of `made`; partner: existing_process_primitives().
  if (__atomic_compare_exchange_n(&state()->global_callbacks, &expected, memory, false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return made;
  std::free(memory);
  return static_cast<ProcessPrimitives*>(expected);
}

// Count the callback lists (one global, one per thread) that have an enabled callback.
// mask_bit::callbacks is set exactly while the count is not 0, so that without callbacks a disabled
// range costs one load and one branch. Only transitions between 0 and 1, which change the bit, take
// the lock. `locked`: the caller already holds it.
inline void add_callbacks_user(ProcessPrimitives* process, bool locked) noexcept {
  uint64_t* users = &state()->callbacks_users;
  uint64_t seen = load_relaxed(users);
  while (seen != 0)
    if (__atomic_compare_exchange_n(users, &seen, seen + 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return;
  if (!locked) ::pthread_mutex_lock(&process->lock);
  if (__atomic_fetch_add(users, 1, __ATOMIC_ACQ_REL) == 0) set_mask_bit(mask_bit::callbacks, true);
  if (!locked) ::pthread_mutex_unlock(&process->lock);
}
inline void remove_callbacks_user(ProcessPrimitives* process, bool locked) noexcept {
  uint64_t* users = &state()->callbacks_users;
  uint64_t seen = load_relaxed(users);
  while (seen > 1)
    if (__atomic_compare_exchange_n(users, &seen, seen - 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return;
  if (!locked) ::pthread_mutex_lock(&process->lock);
  if (__atomic_sub_fetch(users, 1, __ATOMIC_ACQ_REL) == 0) set_mask_bit(mask_bit::callbacks, false);
  if (!locked) ::pthread_mutex_unlock(&process->lock);
}

FASTPROF_NAMESPACE_END
