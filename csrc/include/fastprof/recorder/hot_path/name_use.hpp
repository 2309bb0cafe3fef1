// SPDX-License-Identifier: Apache-2.0
// NameUse: prevents the reclaim of session names (intern.hpp) while a thread uses them.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// RAII guard: no session name is reclaimed between the first begin() and the destructor. Nests.
// Costs four instructions.
class NameUse {
 public:
  NameUse() noexcept = default;
  ~NameUse() {
    if (FASTPROF_UNLIKELY(track_ == nullptr)) return;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    store_release(&track_->names_in_use, before_);  // partner: acquire in names_in_use()
  }
  NameUse(const NameUse&) = delete;
  NameUse& operator=(const NameUse&) = delete;

  // Returns false if the thread cannot be registered (any more): use only static names then. The
  // store needs no fence, because reclaim_names runs a process-wide barrier between unpublishing
  // the table and reading names_in_use.
  FASTPROF_ALWAYS_INLINE bool begin(State* s) noexcept {
    if (track_ != nullptr) return true;
    ThreadBlock* block = thread_block();
    Track* track = block->track;
    if (FASTPROF_UNLIKELY(track == nullptr)) {
      if (s->functions == nullptr) return false;
      track = s->functions->track(s, block);
      if (track == nullptr) return false;
    }
    before_ = load_relaxed(&track->names_in_use);
    track_ = track;
    store_relaxed(&track->names_in_use, 1u);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
  }

 private:
  Track* track_ = nullptr;
  uint32_t before_ = 0;
};

FASTPROF_NAMESPACE_END
