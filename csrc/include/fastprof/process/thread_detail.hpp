// SPDX-License-Identifier: Apache-2.0
// Perf counters and native stacks of ranges, as the leader provides them to the recorder's slow path.
#pragma once

#include <cstring>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/range_detail/detail_block.hpp"
#include "fastprof/recorder/lock.hpp"
#include "fastprof/recorder/thread.hpp"
#include "fastprof/recorder/unload.hpp"

FASTPROF_NAMESPACE_BEGIN

static_assert(sizeof(DetailOptions) <= sizeof(State::detail_options), "the options lie in the State");

// What live sessions want with their ranges. Written under State::lock before mask_bit::detail is shown.
inline DetailOptions detail_options(const State* s) noexcept {
  DetailOptions options;
  std::memcpy(&options, s->detail_options, sizeof options);
  return options;
}

// The calling thread's, made at first use; lives in the arena and is handed on with the track. Null: no memory.
inline ThreadDetail* thread_detail(State* s, Track* track) noexcept {
  if (track->counters == nullptr) {
    StateLock hold(s);
    void* memory = arena_allocate(s, sizeof(ThreadDetail));
    if (memory != nullptr) track->counters = new (memory) ThreadDetail{};
  }
  return static_cast<ThreadDetail*>(track->counters);
}

// Leader functions, see RecorderFunctions.
inline size_t leader_detail_begin(State* s, ThreadBlock*, uint64_t* words, size_t capacity,
                                  const void* caller) noexcept {
  Track* track = current_track();
  ThreadDetail* detail = track != nullptr ? thread_detail(s, track) : nullptr;
  if (detail == nullptr) return 0;
  return encode_detail_begin(words, capacity, detail_options(s), detail, caller);
}
inline void leader_detail_end(State*, ThreadBlock* block, uint64_t* words) noexcept {
  const Track* track = block->track;
  if (track != nullptr && track->counters != nullptr)
    encode_detail_end(words, static_cast<const ThreadDetail*>(track->counters));
}

// Other code may come to lie where a library was: what is remembered of its stack frames goes with it.
inline void leader_unload_code(State* s, uintptr_t first, uintptr_t last) noexcept {
  clear_unwind_cache();
  leader_unload(s, first, last);
}

// At thread exit and, for the surviving thread, in a forked child: the descriptors are closed.
inline void close_track_detail(Track* track) noexcept {
  if (track->counters != nullptr) close_thread_detail(static_cast<ThreadDetail*>(track->counters));
}

FASTPROF_NAMESPACE_END
