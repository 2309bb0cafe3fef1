// SPDX-License-Identifier: Apache-2.0
// SignalAwareLock: a mutex that a signal handler can query: a handler that interrupted the holder
// must not wait for another thread that needs the mutex. Such a handler defers the signal, and the
// holder raises it again when it has unlocked.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <mutex>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

class SignalAwareLock {
 public:
  void lock() {
    mutex_.lock();
    __atomic_store_n(&holder_, self(), __ATOMIC_RELAXED);
  }
  void unlock() {
    __atomic_store_n(&holder_, uintptr_t{0}, __ATOMIC_RELAXED);
    mutex_.unlock();
    if (FASTPROF_UNLIKELY(__atomic_load_n(&deferred_, __ATOMIC_RELAXED) != 0)) {
      const int signal = __atomic_exchange_n(&deferred_, 0, __ATOMIC_RELAXED);
      if (signal != 0) ::raise(signal);
    }
  }

  // For a signal handler: whether it interrupted the holder. If so, the signal is raised again
  // after unlock(), on the same thread.
  bool defer_if_held(int signal) noexcept {
    if (__atomic_load_n(&holder_, __ATOMIC_RELAXED) != self()) return false;
    __atomic_store_n(&deferred_, signal, __ATOMIC_RELAXED);
    return true;
  }

 private:
  static uintptr_t self() noexcept { return (uintptr_t)::pthread_self(); }

  std::mutex mutex_;
  uintptr_t holder_ = 0;  // relaxed atomic: only its own thread has to see it exactly
  int deferred_ = 0;      // relaxed atomic
};

}  // namespace metal
FASTPROF_NAMESPACE_END
