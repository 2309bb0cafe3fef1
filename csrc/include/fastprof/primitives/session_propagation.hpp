// SPDX-License-Identifier: Apache-2.0
// SessionPropagation: how membership in thread-local sessions travels with a snapshot.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/thread.hpp"

FASTPROF_NAMESPACE_BEGIN

// The recorder's seam in ThreadLocalState: save() on the thread that takes the snapshot, enter()
// and leave() around the work on the thread that runs it, in nesting order. Nothing throws.
struct SessionPropagation {
  // Which thread-local sessions a thread records for.
  struct Membership {
    uint32_t mask = 0;  // ThreadBlock::mask
    uint32_t reserved = 0;
    uint64_t sessions = 0;  // bit per State::sessions
    uint64_t epoch = 0;     // State::session_epoch when saved
  };

  static Membership save() noexcept { return {thread_block()->mask, 0, 0, 0}; }

  // Makes the calling thread record for `membership`; returns what it recorded for before.
  static Membership enter(const Membership& membership) noexcept {
    const Membership former = save();
    ThreadBlock* block = thread_block();
    if (block->mask != membership.mask) store_relaxed(&block->mask, membership.mask);
    return former;
  }

  // Puts back what enter() returned.
  static void leave(const Membership& former) noexcept {
    ThreadBlock* block = thread_block();
    if (block->mask != former.mask) store_relaxed(&block->mask, former.mask);
  }
};

FASTPROF_NAMESPACE_END
