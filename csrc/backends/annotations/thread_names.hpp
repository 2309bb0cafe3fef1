// SPDX-License-Identifier: Apache-2.0
// Thread names that a program sets by the kernel's thread id, perhaps before the thread has
// recorded anything.
#pragma once

#include <cstdint>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// Incremented for each name of a thread that has recorded nothing yet. A thread whose copy in
// ThreadRanges differs looks for its name. Relaxed: the names are guarded by a lock, and a thread
// that reads the old value is named at a later record.
inline uint32_t g_awaiting_names = 0;

// Names a thread of this process in captures. `tid`: the kernel's thread id; 0: the calling thread.
// A thread that has not recorded yet is named when its first annotation is recorded. Any thread.
void name_thread(uint32_t tid, std::string_view name) noexcept;

// Applies a name that waits for the calling thread, if there is one. Returns the value of
// g_awaiting_names for ThreadRanges::seen_names.
uint32_t take_awaiting_name() noexcept;

// As take_awaiting_name(), but only if there are new names: a load and a comparison on the path of
// every record. seen: ThreadRanges::seen_names of the calling thread.
FASTPROF_ALWAYS_INLINE void apply_awaiting_name(uint32_t& seen) noexcept {
  if (FASTPROF_UNLIKELY(load_relaxed(&g_awaiting_names) != seen)) seen = take_awaiting_name();
}

// Registers a handler for forked children, which renews the lock and discards the names, which were
// of the parent's threads. Later calls do nothing. Any thread.
void watch_forks_of_thread_names() noexcept;

}  // namespace annotations
FASTPROF_NAMESPACE_END
