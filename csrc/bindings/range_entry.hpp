// SPDX-License-Identifier: Apache-2.0
// RangeEntry: one entry of a Python range, from its begin to its end on any thread.
#pragma once

#include <memory>

#include "adapters/python/thread_name.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/recorder/hot_path/range.hpp"

FASTPROF_NAMESPACE_BEGIN
// State of one entry.
namespace bindings {

// `function` only calls callbacks. The recorded range belongs to the entry itself, so that it can
// carry arguments and stacks.
struct RangeEntry {
  Slot* slot;  // null: not recorded
  uint64_t begin;
  uintptr_t thread;          // thread pointer of the beginning thread; finds the entry of an end
  uint32_t track;            // track of the beginning thread, if recorded
  uint32_t detached;         // another object ends it
  RecordFunction* function;  // null unless callbacks observe it
};

struct RangePayload;

// Returns the value of RangeEntry::thread for the calling thread.
FASTPROF_ALWAYS_INLINE uintptr_t this_thread() noexcept {
  return reinterpret_cast<uintptr_t>(thread_pointer());
}

// Begins a range that callbacks observe, or that has arguments or a stack. Requires the GIL.
void begin_entry_slow(RangeEntry& entry, State* s, const Site* site, RangePayload* payload);
// Ends an entry with callbacks, or on another thread than began it.
void end_entry_slow(RangeEntry& entry, const Site* site) noexcept;

using python_adapter::mark_thread_named;
using python_adapter::name_thread_once;

// Number of sessions that record a Python stack per range. Relaxed, with the GIL held for changes:
// a range that reads the old value has a stack too many or too few.
extern uint32_t python_stack_sessions;
// Number of these with native frames. While there are any, the leader adds the stack of each range.
extern uint32_t joined_stack_sessions;

// Requires entry.slot, function and detached to be 0, and thread to be set. site: resolved.
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

// Ends an entry; no-op if it was neither recorded nor observed. Any thread.
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
