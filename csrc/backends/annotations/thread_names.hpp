// SPDX-License-Identifier: Apache-2.0
// Names that a program gives to threads by the kernel's thread id.
#pragma once

#include <cstdint>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// Incremented with each name for a thread that has recorded nothing yet (relaxed). A thread whose
// copy in ThreadRanges differs looks for its name.
inline uint32_t g_awaiting_names = 0;

// Names a thread of this process in captures. `tid`: the kernel's thread id; 0: the calling thread.
// A thread that has not recorded yet is named when its first annotation is recorded. Any thread.
void name_thread(uint32_t tid, std::string_view name) noexcept;

// Applies a name that awaits the calling thread. Returns the count of names that it has seen.
uint32_t take_awaiting_name() noexcept;

// The same, for the path of every record: a load and a comparison. seen: of the calling thread.
FASTPROF_ALWAYS_INLINE void name_this_thread_if_asked(uint32_t& seen) noexcept {
  if (FASTPROF_UNLIKELY(load_relaxed(&g_awaiting_names) != seen)) seen = take_awaiting_name();
}

// Makes the lock of names usable in a forked child, and discards names of the parent's threads.
void renew_thread_names_in_child() noexcept;

}  // namespace annotations
FASTPROF_NAMESPACE_END
