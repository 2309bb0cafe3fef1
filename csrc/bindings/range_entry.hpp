// SPDX-License-Identifier: Apache-2.0
// RangeEntry: one entry into a Python range, from its begin to its end on any thread.
#pragma once

#include <memory>

#include "fastprof/primitives/record_function.hpp"
#include "fastprof/process/attach.hpp"
#include "fastprof/recorder/range.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// A RecordFunction that is told to callbacks only: the recorder's range is the entry's own, so that
// it can carry arguments and stacks.
struct RangeEntry {
  Slot* slot;  // null: not recorded
  uint64_t begin;
  uintptr_t thread;   // thread pointer of the beginning thread: which entry an end belongs to
  uint32_t track;     // its track, when recorded
  uint32_t detached;  // somebody else ends it
  RecordFunction* function;  // while callbacks observe it, else null
};

struct RangePayload;

FASTPROF_ALWAYS_INLINE uintptr_t this_thread() noexcept {
  return reinterpret_cast<uintptr_t>(thread_pointer());
}

// Begin of a range that callbacks observe, that has arguments, or that wants a stack. GIL held.
void begin_entry_slow(RangeEntry& entry, State* s, const Site* site, RangePayload* payload);
// End with callbacks, or on another thread than it began.
void end_entry_slow(RangeEntry& entry, const Site* site) noexcept;

// Gives the calling thread's track the name that `threading` knows it by, at its first range from
// Python; not when it was named already. GIL held; raises nothing.
void name_thread_once() noexcept;
void mark_thread_named() noexcept;

// How many sessions want a Python stack with each range (relaxed; changed with the GIL held).
extern uint32_t python_stack_sessions;

// entry.slot, function and detached must be null; thread is set by the caller. site: resolved.
FASTPROF_ALWAYS_INLINE void begin_entry(RangeEntry& entry, State* s, uint32_t mask,
                                        const Site* site, RangePayload* payload) {
  if (FASTPROF_UNLIKELY((mask & kColdBits) != 0 || payload != nullptr ||
                        load_relaxed(&python_stack_sessions) != 0)) {
    begin_entry_slow(entry, s, site, payload);
    return;
  }
  ThreadBlock* block = static_thread_block();
  if ((mask & site->mask) == 0 && (block->mask & site->mask) == 0) return;
  if (FASTPROF_UNLIKELY(block->track == nullptr || block->track->extension == nullptr))
    name_thread_once();
  Slot* slot = reserve(s, block, 1, site->mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return;
  entry.slot = slot;
  entry.track = block->track->id;
  entry.begin = stamp_slot(slot, 0, reinterpret_cast<uintptr_t>(site));
}

FASTPROF_ALWAYS_INLINE void end_entry(RangeEntry& entry, const Site* site) noexcept {
  if (FASTPROF_UNLIKELY(entry.slot == nullptr && entry.function == nullptr)) return;
  const Track* track = thread_block()->track;
  if (FASTPROF_UNLIKELY(entry.function != nullptr || track == nullptr ||
                        track->id != entry.track)) {
    end_entry_slow(entry, site);
    return;
  }
  end_open(OpenRange{entry.slot, entry.begin}, site);
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
