// SPDX-License-Identifier: Apache-2.0
// The part of a thread's primitives that every library reads, and the thread's id.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"

FASTPROF_NAMESPACE_BEGIN

struct CallbackListBlock;
struct DebugInfoNode;

// Free-list node: storage of one dispatched FASTPROF_RANGE, kept for reuse.
struct RangeStorage {
  RangeStorage* next;
};

// First words of ThreadPrimitives (thread_primitives.hpp); only the leader uses the rest. Own
// thread only. The layout is ABI.
struct ThreadPrimitivesHead {
  // The two switches are kept apart so that no compiler reads both in one load, which would stall
  // on the preceding store. `running` is only ever stored as a constant: a read-modify-write would
  // make each RecordFunction wait for the one before.
  uint64_t disabled;  // enable_record_function(false): nothing is recorded either
  RangeStorage* free_storage;
  uint64_t running;      // inside a callback: RecordFunctions call no callbacks
  uint64_t thread_id;    // Track::id of the thread
  uint64_t next_handle;  // next RecordFunction handle, valid if handles_left != 0
  uint64_t handles_left;
  uint64_t storage_count;        // nodes in free_storage
  CallbackListBlock* callbacks;  // thread-local callbacks, owned reference
  DebugInfoNode* debug_info;     // owned reference
};
static_assert(sizeof(ThreadPrimitivesHead) == 72, "the thread's primitives are ABI");

// Returns the head of a ThreadPrimitives, whose definition is not needed; null for null.
inline const ThreadPrimitivesHead* head_of(const ThreadPrimitives* primitives) noexcept {
  return reinterpret_cast<const ThreadPrimitivesHead*>(primitives);
}

// Returns the calling thread's primitives, or null if it has not used them yet. Never allocates.
FASTPROF_ALWAYS_INLINE ThreadPrimitives* existing_thread_primitives() noexcept {
  const Track* track = thread_block()->track;
  return track != nullptr ? track->primitives : nullptr;
}

// Returns the logical id of the calling thread: Track::id, under which its events appear in a
// Capture. Positive and unique over the life of the process; 0 at thread exit.
inline uint64_t current_thread_id() noexcept {
  const ThreadPrimitivesHead* primitives = head_of(thread_primitives());
  return primitives != nullptr ? primitives->thread_id : 0;
}

FASTPROF_NAMESPACE_END
