// SPDX-License-Identifier: Apache-2.0
// ForkHold: keeps the process from forking during a tick of a sampling thread, which may have the
// loader's lock. The child would have it locked, without the thread that could unlock it, and hang
// in its next dlopen.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/threads.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace fork_hold_detail {

inline uint32_t g_holder = 0;  // id of the thread that samples or forks; 0: none
inline bool g_installed = false;

inline bool take(uint32_t tid) noexcept {
  uint32_t nobody = 0;
  return __atomic_compare_exchange_n(&g_holder, &nobody, tid, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}
inline void pause() noexcept {
  const timespec time{0, 50000};
  ::nanosleep(&time, nullptr);
}

// Bounded, because a thread that forks while it has the loader's lock itself keeps the sampling
// thread waiting for it.
inline void before_fork() noexcept {
  const uint32_t own = platform::thread_id();
  for (int i = 0; i < 2000 && !take(own); ++i) pause();
}
inline void after_fork_in_parent() noexcept {
  uint32_t own = platform::thread_id();
  __atomic_compare_exchange_n(&g_holder, &own, 0u, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
inline void after_fork_in_child() noexcept {
  __atomic_store_n(&g_holder, 0u, __ATOMIC_RELEASE);
}

}  // namespace fork_hold_detail

// Before the sampling thread starts. False if memory is exhausted.
inline bool install_fork_hold() noexcept {
  namespace detail = fork_hold_detail;
  if (__atomic_exchange_n(&detail::g_installed, true, __ATOMIC_RELAXED)) return true;
  if (::pthread_atfork(&detail::before_fork, &detail::after_fork_in_parent,
                       &detail::after_fork_in_child) == 0)
    return true;
  __atomic_store_n(&detail::g_installed, false, __ATOMIC_RELAXED);
  return false;
}

// Not recursive. A tick takes some ms at most, and a fork waits for it.
class ForkHold {
 public:
  ForkHold() noexcept {
    const uint32_t own = platform::thread_id();
    while (!fork_hold_detail::take(own)) fork_hold_detail::pause();
  }
  ~ForkHold() { __atomic_store_n(&fork_hold_detail::g_holder, 0u, __ATOMIC_RELEASE); }
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
};

FASTPROF_NAMESPACE_END
