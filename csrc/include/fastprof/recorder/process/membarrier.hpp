// SPDX-License-Identifier: Apache-2.0
// Process-wide memory barrier: every running thread passes a full barrier, so that the hot path
// needs none.
#pragma once

#include <time.h>

#include <cstdlib>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Runs the barrier; returns whether it was exact. Where the system has none
// (platform/threads.hpp), or FASTPROF_NO_MEMBARRIER was in the environment at the first call, it
// sleeps 1 ms instead: by then store buffers have very probably drained and running threads have
// seen the mask. exact_stop is then false.
inline bool process_barrier(State* s) noexcept {
  uint32_t mode = load_relaxed(&s->membarrier);
  if (mode == 0) {
    const bool forbidden = std::getenv("FASTPROF_NO_MEMBARRIER") != nullptr;
    mode = !forbidden && platform::register_fence() ? 1 : 2;
    store_relaxed(&s->membarrier, mode);
  }
  if (mode == 1 && platform::fence_all_threads()) return true;
  const timespec pause{0, 1000000};
  ::nanosleep(&pause, nullptr);
  return false;
}

FASTPROF_NAMESPACE_END
