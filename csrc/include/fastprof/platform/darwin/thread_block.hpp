// SPDX-License-Identifier: Apache-2.0
// A library's thread-local block on Darwin: allocated from a pool, found through a pthread key.
//
// It is not a thread_local variable, because dyld frees those in the destructor of a pthread key of
// its own. That key is older than the recorder's, so its destructor runs first, and the recorder's
// destructor would find no block. The key's destructor keeps the block until the last round of
// destructors, so that all others can record. The block has no fixed offset from the thread
// pointer, so ranges take the cold path (mask_bit::dynamic).
#pragma once

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "fastprof/base/config.hpp"

#ifndef PTHREAD_DESTRUCTOR_ITERATIONS
#define PTHREAD_DESTRUCTOR_ITERATIONS 4
#endif

FASTPROF_NAMESPACE_BEGIN

// An address that differs between threads that are alive.
inline char* thread_pointer() noexcept {
  return reinterpret_cast<char*>(::pthread_self());
}

namespace platform {

// A block of the pool. Reused by other threads but never freed: a reader may hold the address of a
// block whose thread has ended.
struct alignas(64) PooledBlock {
  char block[32];
  PooledBlock* next;   // list of all blocks; constant once the block is in the list
  uint32_t in_use;     // take_thread_block: acquire; release_thread_block: release
  uint32_t destroyed;  // rounds of destructors that have passed (own thread)
};

// Rounds of destructors until a block is released: all of them; one less with ThreadSanitizer,
// which forgets a thread in the last round.
constexpr uint32_t kBlockRounds = PTHREAD_DESTRUCTOR_ITERATIONS - FASTPROF_TSAN;

inline PooledBlock* pooled_blocks = nullptr;  // prepended by a release CAS; read with acquire
inline uint64_t thread_block_key = 0;         // the pthread key + 1; 0: not created yet

// Destructor of the key. pthread runs destructors in rounds while any key has a value: setting the
// value again keeps the block for the destructors of other keys, which may record.
inline void release_thread_block(void* argument) noexcept {
  auto* pooled = static_cast<PooledBlock*>(argument);
  const uint64_t key = __atomic_load_n(&thread_block_key, __ATOMIC_RELAXED);
  if (key != 0 && ++pooled->destroyed < kBlockRounds &&
      ::pthread_setspecific(static_cast<pthread_key_t>(key - 1), argument) == 0)
    return;
  __atomic_store_n(&pooled->in_use, 0u, __ATOMIC_RELEASE);
}

// Returns the key, creating it if no thread has; 0 if the process has no more keys.
FASTPROF_COLD inline uint64_t make_thread_block_key() noexcept {
  pthread_key_t key;
  if (::pthread_key_create(&key, &release_thread_block) != 0) return 0;
  uint64_t expected = 0;
  const uint64_t made = uint64_t{key} + 1;
  if (__atomic_compare_exchange_n(&thread_block_key, &expected, made, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return made;
  ::pthread_key_delete(key);
  return expected;
}

// Returns a zeroed block that no thread uses. Takes no lock, because a signal handler may interrupt
// this function and call it. Aborts the process if 16 KB cannot be mapped.
FASTPROF_COLD inline PooledBlock* take_thread_block() noexcept {
  for (PooledBlock* at = __atomic_load_n(&pooled_blocks, __ATOMIC_ACQUIRE); at != nullptr;
       at = at->next) {
    uint32_t expected = 0;
    if (__atomic_load_n(&at->in_use, __ATOMIC_RELAXED) == 0 &&
        __atomic_compare_exchange_n(&at->in_use, &expected, 1u, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
      std::memset(at->block, 0, sizeof at->block);
      at->destroyed = 0;
      return at;
    }
  }
  constexpr size_t kCount = 16384 / sizeof(PooledBlock);
  void* memory = ::mmap(nullptr, kCount * sizeof(PooledBlock), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* fresh = static_cast<PooledBlock*>(memory);
  fresh[0].in_use = 1;
  for (size_t i = 0; i + 1 < kCount; ++i) fresh[i].next = &fresh[i + 1];
  PooledBlock* head = __atomic_load_n(&pooled_blocks, __ATOMIC_RELAXED);
  do {
    fresh[kCount - 1].next = head;
  } while (!__atomic_compare_exchange_n(&pooled_blocks, &head, fresh, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
  return fresh;
}

// Whether this library's thread block has the same offset from the thread pointer in all threads:
// never on this system.
inline bool probe_thread_block(intptr_t& offset) noexcept {
  offset = 0;
  return false;
}

// The calling thread's block of this library. Aborts the process if it has no pthread key left (a
// process has 512).
inline void* find_thread_block() noexcept {
  uint64_t key = __atomic_load_n(&thread_block_key, __ATOMIC_ACQUIRE);
  if (FASTPROF_UNLIKELY(key == 0)) {
    key = make_thread_block_key();
    if (key == 0) std::abort();
  }
  void* known = ::pthread_getspecific(static_cast<pthread_key_t>(key - 1));
  if (FASTPROF_LIKELY(known != nullptr)) return known;
  PooledBlock* taken = take_thread_block();
  ::pthread_setspecific(static_cast<pthread_key_t>(key - 1), taken);
  return taken;
}

// Call before a library whose block no other library uses is unloaded: deletes the key, whose
// destructor lies in that library.
inline void drop_thread_blocks() noexcept {
  const uint64_t key = __atomic_exchange_n(&thread_block_key, uint64_t{0}, __ATOMIC_ACQ_REL);
  if (key != 0) ::pthread_key_delete(static_cast<pthread_key_t>(key - 1));
}

}  // namespace platform
FASTPROF_NAMESPACE_END
