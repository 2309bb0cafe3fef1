// SPDX-License-Identifier: Apache-2.0
// ThreadLocalState: snapshot of a thread's observer state that other threads can enter.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/callbacks.hpp"
#include "fastprof/primitives/debug_info.hpp"
#include "fastprof/primitives/session_propagation.hpp"
#include "fastprof/primitives/thread_local_slots.hpp"

FASTPROF_NAMESPACE_BEGIN

// Snapshot of the calling thread: debug info, thread-local callbacks and enabled flag, membership
// in thread-local sessions, registered slots. Immutable; cheap to copy (all content is shared).
// Several threads may enter it at once.
class ThreadLocalState {
 public:
  // Takes the snapshot. Exceptions thrown by a registered getter pass through.
  ThreadLocalState()
      : debug_info_(ThreadLocalDebugInfo::current()),
        functions_(record_function_tls()),
        membership_(SessionPropagation::save()) {
    const auto entries = slots_detail::registered();
    if (entries.empty()) return;
    slots_.reserve(entries.size());
    for (const auto& entry : entries)
      slots_.push_back({entry.handle, entry.slot, entry.slot->capture()});
  }

  // Applies the snapshot to the calling thread permanently, except for session membership, which
  // only a guard can undo in order. Prefer ThreadLocalStateGuard.
  static void set_thread_local_state(const ThreadLocalState& state) {
    ThreadLocalDebugInfo::force_current(state.debug_info_);
    set_record_function_tls(state.functions_);
    if (state.slots_.empty()) return;
    const auto entries = slots_detail::registered();
    for (const SavedSlot& slot : state.slots_)
      for (const auto& entry : entries)
        if (entry.handle == slot.handle) slot.slot->restore(slot.value);
  }

  const DebugInfoChain& debug_info() const noexcept { return debug_info_; }

 private:
  friend class ThreadLocalStateGuard;
  struct SavedSlot {
    SlotHandle handle;
    std::shared_ptr<const ThreadLocalSlot> slot;
    std::shared_ptr<const void> value;
  };

  DebugInfoChain debug_info_;
  RecordFunctionTls functions_;
  SessionPropagation::Membership membership_;
  std::vector<SavedSlot> slots_;
};

// Applies a snapshot to the calling thread for a scope and then restores the former state. Not
// copyable, not movable. Destroy on the same thread, in reverse order.
class ThreadLocalStateGuard {
 public:
  explicit ThreadLocalStateGuard(const ThreadLocalState& state)
      : stay_(SessionPropagation::enter(state.membership_)) {
    ThreadLocalState::set_thread_local_state(state);
  }
  ~ThreadLocalStateGuard() {
    ThreadLocalState::set_thread_local_state(former_);
    SessionPropagation::leave(stay_);
  }
  ThreadLocalStateGuard(const ThreadLocalStateGuard&) = delete;
  ThreadLocalStateGuard& operator=(const ThreadLocalStateGuard&) = delete;

 private:
  const ThreadLocalState former_;
  const SessionPropagation::Stay stay_;
};

FASTPROF_NAMESPACE_END
