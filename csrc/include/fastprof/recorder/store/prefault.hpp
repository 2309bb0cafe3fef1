// SPDX-License-Identifier: Apache-2.0
// The prefault thread: faults in slabs ahead of threads that grow, if a second CPU is usable. Page
// faults, not stores, dominate the cost of recording into new memory (25 ns a scope, 17 if
// pre-faulted).
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/platform/wait_word.hpp"
#include "fastprof/recorder/state/lock.hpp"
#include "fastprof/recorder/store/pool.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint64_t kPrefaultSlabs = 4;  // pre-faulted slabs kept ready: 8 MB

// CPUs that this process may use now: its affinity, limited by `quota_cpus` of its cgroup. At least
// 1.
inline uint32_t count_usable_cpus(double quota_cpus) noexcept {
  double cpus = platform::usable_cpus();
  if (quota_cpus < cpus) cpus = quota_cpus;
  return cpus < 1 ? 1 : static_cast<uint32_t>(cpus);
}

// Whether to fault in slabs now: few are ready, and the bound allows more. Free chunks count like
// ready slabs: their pages exist. State::lock held.
inline bool want_prefault(const State* s) noexcept {
  if (s->usable_cpus < 2 || s->ready_count >= kPrefaultSlabs / 2) return false;
  if (s->free_count >= kPrefaultSlabs * kChunksPerSlab) return false;
  const uint64_t ahead = (s->ready_count + 1) * kChunksPerSlab;
  return s->chunk_count + ahead <= s->max_chunks || s->ready_count == 0;
}

// Number of slabs to keep ready: 4 (8 MB), at most a quarter of the bound, never beyond the bound.
inline uint64_t prefault_target(const State* s) noexcept {
  uint64_t target = kPrefaultSlabs;
  const uint64_t quarter = s->max_chunks / 4 / kChunksPerSlab;
  if (quarter < target) target = quarter < 1 ? 1 : quarter;
  const uint64_t left =
      s->max_chunks > s->chunk_count ? (s->max_chunks - s->chunk_count) / kChunksPerSlab : 0;
  return left < target ? left : target;
}

// Main function of the prefault thread. It ends after a second without work.
inline void* prefault_main(void* argument) noexcept {
  auto* s = static_cast<State*>(argument);
  platform::name_this_thread("fastprof-fault");
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
      add_ready(s, slab);
      if (s->session_bits == 0) trim_pool(s);
    }
    const bool woken = platform::wait_word(&s->prefault_signal, seen, 1000000000);
    if (!woken && __atomic_load_n(&s->prefault_signal, __ATOMIC_ACQUIRE) == seen) {
      ScopedLock hold(s->lock);
      if (__atomic_load_n(&s->prefault_signal, __ATOMIC_ACQUIRE) != seen) continue;
      s->prefault_running = 0;
      return nullptr;
    }
  }
}

// Whether the signal mask is empty.
inline bool blocks_nothing(const sigset_t& mask) noexcept {
  for (int signal = 1; signal < NSIG; ++signal)
    if (sigismember(&mask, signal) == 1) return false;
  return true;
}

// Wakes the prefault thread, or starts it with all signals blocked. No lock held. Called by refills
// only, never at import or load, so that an idle fastprof has no thread.
inline void prefault_ahead(State* s) noexcept {
  __atomic_fetch_add(&s->prefault_signal, 1u, __ATOMIC_RELEASE);
  {
    ScopedLock hold(s->lock);
    if (s->prefault_running != 0) {
      platform::wake_one(&s->prefault_signal);
      return;
    }
    s->prefault_running = 1;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // If a signal is blocked, this may be its handler, in which no thread may be created. A later
  // refill creates it; until then threads fault in their own memory.
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
