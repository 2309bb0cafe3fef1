// SPDX-License-Identifier: Apache-2.0
// The prefault thread: keeps a few slabs ahead of growing threads, where a second CPU allows it.
// Page faults, not stores, are the cost of recording without reuse (25 ns a scope demand-faulted,
// 17 pre-faulted).
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/lock.hpp"
#include "fastprof/recorder/pool.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint64_t kPrefaultSlabs = 4;

// CPUs this process may use now: its affinity, and `quota_cpus` of its cgroup. At least 1.
inline uint32_t count_usable_cpus(double quota_cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  double cpus = 1;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) cpus = CPU_COUNT(&set);
  if (quota_cpus < cpus) cpus = quota_cpus;
  return cpus < 1 ? 1 : static_cast<uint32_t>(cpus);
}

inline long futex(uint32_t* word, int op, uint32_t value, const timespec* timeout) noexcept {
  return ::syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

// Whether slabs should be faulted ahead now: a thread grew, little is ready, and the bound allows
// more. Free chunks are as good as a ready slab: they were written before. State::lock held.
inline bool want_prefault(const State* s) noexcept {
  if (s->usable_cpus < 2 || s->ready_count >= kPrefaultSlabs / 2) return false;
  if (s->free_count >= kPrefaultSlabs * kChunksPerSlab) return false;
  const uint64_t ahead = (s->ready_count + 1) * kChunksPerSlab;
  return s->chunk_count + ahead <= s->max_chunks || s->ready_count == 0;
}

// How many slabs to hold ready: 8 MB, a quarter of the bound, never beyond the bound.
inline uint64_t prefault_target(const State* s) noexcept {
  uint64_t target = kPrefaultSlabs;
  const uint64_t quarter = s->max_chunks / 4 / kChunksPerSlab;
  if (quarter < target) target = quarter < 1 ? 1 : quarter;
  const uint64_t left =
      s->max_chunks > s->chunk_count ? (s->max_chunks - s->chunk_count) / kChunksPerSlab : 0;
  return left < target ? left : target;
}

inline void* prefault_main(void* argument) noexcept {
  auto* s = static_cast<State*>(argument);
  pthread_setname_np(pthread_self(), "fastprof-fault");
  for (;;) {
    const uint32_t seen = __atomic_load_n(&s->prefault_signal, __ATOMIC_ACQUIRE);
    for (;;) {
      BlankSlab blank;
      {
        ScopedLock hold(s->lock);
        if (s->session_bits == 0 || s->ready_count >= prefault_target(s)) break;
        blank = take_blank(s);
      }
      Slab* slab = blank.slab;
      if (slab == nullptr) break;
      populate_slab(slab);
      ScopedLock hold(s->lock);
      init_slab(s, blank);
      slab->next = s->ready;
      s->ready = slab;
      ++s->ready_count;
      if (s->session_bits == 0) trim_pool(s);
    }
    const timespec idle{1, 0};
    const long woken = futex(&s->prefault_signal, FUTEX_WAIT, seen, &idle);
    if (woken != 0 && __atomic_load_n(&s->prefault_signal, __ATOMIC_ACQUIRE) == seen) {
      ScopedLock hold(s->lock);
      if (__atomic_load_n(&s->prefault_signal, __ATOMIC_ACQUIRE) != seen) continue;
      s->prefault_running = 0;
      return nullptr;
    }
  }
}

inline bool blocks_nothing(const sigset_t& mask) noexcept {
  for (int signal = 1; signal < NSIG; ++signal)
    if (sigismember(&mask, signal) == 1) return false;
  return true;
}

// Wakes the prefault thread, starting it first if need be. No lock held; all its signals are
// blocked. Never at import or load: an idle fastprof has no thread of its own.
inline void prefault_ahead(State* s) noexcept {
  __atomic_fetch_add(&s->prefault_signal, 1u, __ATOMIC_RELEASE);
  {
    ScopedLock hold(s->lock);
    if (s->prefault_running != 0) {
      futex(&s->prefault_signal, FUTEX_WAKE, 1, nullptr);
      return;
    }
    s->prefault_running = 1;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // A blocked signal may mean that this is its handler, where no thread may be made: another refill
  // makes it, and until then the growing threads fault their own memory in.
  if (!blocks_nothing(before)) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ScopedLock hold(s->lock);
    s->prefault_running = 0;
    return;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 128 * 1024);
  pthread_t thread;
  const int failed = pthread_create(&thread, &attributes, &prefault_main, s);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    ScopedLock hold(s->lock);
    s->prefault_running = 0;
    s->usable_cpus = 1;  // do not try again
  }
}

FASTPROF_NAMESPACE_END
