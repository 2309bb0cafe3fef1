// SPDX-License-Identifier: Apache-2.0
// membarrier(2): makes every running thread of the process pass a full barrier, so that the hot
// path needs none.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns whether the barrier was exact. Without the system call (seccomp, gVisor) it sleeps 1 ms,
// by which time store buffers have drained and running threads have seen the mask in all
// likelihood: exact_stop is then false. FASTPROF_NO_MEMBARRIER in the environment of the first
// session takes that way. 28 us with three busy threads.
inline bool process_barrier(State* s) noexcept {
  uint32_t mode = load_relaxed(&s->membarrier);
  if (mode == 0) {
    const bool forbidden = std::getenv("FASTPROF_NO_MEMBARRIER") != nullptr;
    mode = !forbidden &&
                   ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0
               ? 1
               : 2;
    store_relaxed(&s->membarrier, mode);
  }
  if (mode == 1 && ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
    return true;
  const timespec pause{0, 1000000};
  ::nanosleep(&pause, nullptr);
  return false;
}

FASTPROF_NAMESPACE_END
