// SPDX-License-Identifier: Apache-2.0
// ThreadLocalState: what a thread carries for observers, as a snapshot that other threads can
// enter.
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

// A snapshot of the calling thread: debug info, thread-local callbacks and their switch, membership
// in thread-local sessions, and the registered slots. Cheap to copy (all shared); immutable; may be
// entered by several threads at once.
class ThreadLocalState {
 public:
  // Takes the snapshot. May throw what a user's getter throws.
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

  // Makes the calling thread carry the snapshot from now on, all but session membership, which only
  // a guard can give back in order. Prefer ThreadLocalStateGuard.
  static void set_thread_local_state(const ThreadLocalState& state) {
    ThreadLocalDebugInfo::force_current(state.debug_info_);
    set_record_function_tls(state.functions_);
    if (state.slots_.empty()) return;
    const auto entries = slots_detail::registered();
    for (const Slot_& slot : state.slots_)
      for (const auto& entry : entries)
        if (entry.handle == slot.handle) slot.slot->restore(slot.value);
  }

  const DebugInfoChain& debug_info() const noexcept { return debug_info_; }

 private:
  friend class ThreadLocalStateGuard;
  struct Slot_ {
    SlotHandle handle;
    std::shared_ptr<const ThreadLocalSlot> slot;
    std::shared_ptr<const void> value;
  };

  DebugInfoChain debug_info_;
  RecordFunctionTls functions_;
  SessionPropagation::Membership membership_;
  std::vector<Slot_> slots_;
};

// Carries a snapshot on the calling thread for a scope; then puts back what was there. Neither
// copyable nor movable; destroy on the thread that made it, in reverse order.
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
