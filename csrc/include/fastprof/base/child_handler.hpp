// SPDX-License-Identifier: Apache-2.0
// ChildHandler: calls a function in each child that the process forks. For locks, and the tables
// that they guard, which another thread of the parent may have held.
#pragma once

#include <pthread.h>

#include <mutex>
#include <new>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Has static storage, and is constant-initialised: unlike `static const int registered =
// pthread_atfork(...)` in a function, it has no guard that a child could find locked.
class ChildHandler {
 public:
  // Registers `renew`, once. Later calls do nothing. `used`: the objects that `renew` uses. They
  // are passed so that they exist before: if another thread is initialising a static variable of a
  // function when the process forks, the child that asks for it waits for ever. Returns false if
  // memory is exhausted: the next call tries again. Any thread.
  template <class... Objects>
  bool install(void (*renew)(), const Objects&... /*used*/) noexcept {
    // Relaxed: nothing else is published. A thread that finds it installed may fork before the
    // other has called pthread_atfork; that child only misses the handler.
    if (__atomic_exchange_n(&installed_, true, __ATOMIC_RELAXED)) return true;
    if (::pthread_atfork(nullptr, nullptr, renew) == 0) return true;
    __atomic_store_n(&installed_, false, __ATOMIC_RELAXED);
    return false;
  }

 private:
  bool installed_ = false;
};

// In a forked child: makes a lock usable.
inline void renew_lock(std::mutex& lock) noexcept {
  new (&lock) std::mutex;
}

// In a forked child: makes `lock` usable. If another thread of the parent held it, the table that
// it guards may be inconsistent: the table is leaked and an empty one takes its place.
template <class Table>
void renew_guarded(std::mutex& lock, Table& table) noexcept {
  const bool is_consistent = lock.try_lock();
  renew_lock(lock);
  if (!is_consistent) new (&table) Table;
}

FASTPROF_NAMESPACE_END
