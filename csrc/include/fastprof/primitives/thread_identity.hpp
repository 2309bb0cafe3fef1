// SPDX-License-Identifier: Apache-2.0
// What every library reads of a thread's primitives: whether there are any, and the thread's id.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/thread.hpp"

FASTPROF_NAMESPACE_BEGIN

struct CallbackListBlock;
struct DebugInfoNode;

// Storage for one dispatched FASTPROF_RANGE, kept for the next one.
struct RangeStorage {
  RangeStorage* next;
};

// The first words of a ThreadPrimitives (thread_primitives.hpp), of which the rest is the leader's.
// Own thread only. The layout is ABI.
struct ThreadPrimitivesHead {
  // Two switches, apart so that no compiler reads both in one load: that load would stall on the
  // store before it. `running` is only ever stored as a constant: a read-modify-write would chain
  // the time of one RecordFunction to the next.
  uint64_t disabled;  // enable_record_function(false): the recorder gets nothing either
  RangeStorage* free_storage;
  uint64_t running;      // inside a callback: others are not called
  uint64_t thread_id;    // Track::id of the thread
  uint64_t next_handle;  // next RecordFunction handle, while handles_left
  uint64_t handles_left;
  uint64_t storage_count;        // in free_storage
  CallbackListBlock* callbacks;  // thread-local ones, owned reference
  DebugInfoNode* debug_info;     // owned reference
};
static_assert(sizeof(ThreadPrimitivesHead) == 72, "the thread's primitives are ABI");

// The head of a ThreadPrimitives, which need not be defined here; null of null.
inline const ThreadPrimitivesHead* head_of(const ThreadPrimitives* primitives) noexcept {
  return reinterpret_cast<const ThreadPrimitivesHead*>(primitives);
}

// The calling thread's, or null when it has not used the primitives yet. Never allocates.
FASTPROF_ALWAYS_INLINE ThreadPrimitives* existing_thread_primitives() noexcept {
  const Track* track = thread_block()->track;
  return track != nullptr ? track->primitives : nullptr;
}

// Logical id of the calling thread: Track::id, so that what is recorded under it can be found in a
// Capture. Positive and unique over the process's life; 0 at the thread's very end.
inline uint64_t current_thread_id() noexcept {
  const ThreadPrimitivesHead* primitives = head_of(thread_primitives());
  return primitives != nullptr ? primitives->thread_id : 0;
}

FASTPROF_NAMESPACE_END
