// SPDX-License-Identifier: Apache-2.0
// ProcessPrimitives: what the instrumentation primitives share over the process, behind
// State::global_callbacks.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/recorder/thread.hpp"

FASTPROF_NAMESPACE_BEGIN

struct CallbackListBlock;
struct SlotRegistryBlock;
struct ThreadPrimitives;

constexpr unsigned kMaxReportedFailures = 32;

// Made by whoever comes first, never freed: it outlives the library that made it. The layout is
// ABI: append only.
struct ProcessPrimitives {
  pthread_mutex_t lock;           // held shortly, never across user code; taken before State::lock
  CallbackListBlock* callbacks;   // the global ones (lock)
  SlotRegistryBlock* slots;       // thread-local state of users (lock)
  uint64_t next_callback_handle;  // relaxed
  uint64_t next_slot_handle;      // relaxed
  uint64_t reserved_word;
  uint64_t next_id_block;      // relaxed: RecordFunction handles are handed out in blocks
  uint32_t enabled_callbacks;  // of `callbacks`; a hint read without the lock (relaxed)
  uint32_t reported_count;     // (lock)
  void (*reported[kMaxReportedFailures])();  // callbacks whose exception was reported (lock)
  const void* device_stubs[4];  // legacy/device_stubs.hpp: by DeviceStubsKind (release, acquire)
  ThreadPrimitives* threads;    // list of all: keeps them reachable for leak checkers (lock)
  uint64_t reserved[11];
};

// Locks for a scope; also what guards State::callbacks_users.
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

// The process's, or null when nobody has used the primitives yet (acquire; partner: the CAS below).
inline ProcessPrimitives* existing_process_primitives() noexcept {
  return static_cast<ProcessPrimitives*>(load_acquire(&state()->global_callbacks));
}

// The process's, made at first use. Any thread.
inline ProcessPrimitives* process_primitives() noexcept {
  if (ProcessPrimitives* existing = existing_process_primitives()) return existing;
  void* memory = std::calloc(1, sizeof(ProcessPrimitives));
  if (memory == nullptr) raise<Error>("out of memory for the RecordFunction registry");
  auto* made = new (memory) ProcessPrimitives{};
  ::pthread_mutex_init(&made->lock, nullptr);
  void* expected = nullptr;
  // Release pairs with the acquire load above.
  if (__atomic_compare_exchange_n(&state()->global_callbacks, &expected, memory, false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return made;
  std::free(memory);
  return static_cast<ProcessPrimitives*>(expected);
}

// Counts the sets of callbacks (one global, one a thread) that have an enabled one;
// mask_bit::callbacks is set exactly while there is any, so that without callbacks an off range
// stays one load and a branch. Only the steps between 0 and 1 need the lock: they change the bit.
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
