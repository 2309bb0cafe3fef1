// SPDX-License-Identifier: Apache-2.0
// Perf counters and native stacks of ranges: the leader's functions that the slow path of recording
// calls.
#pragma once

#include <cstring>
#include <new>

#include "fastprof/base/config.hpp"
#include "fastprof/leader/unload.hpp"
#include "fastprof/payload/blocks/detail_block.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/lock.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr size_t kDetailOptionWords = sizeof(DetailOptions) / sizeof(uint64_t);
static_assert(sizeof(DetailOptions) % sizeof(uint64_t) == 0 &&
                  sizeof(DetailOptions) + 8 <= sizeof(State::detail_options),
              "the options and their version lie in the State");

// Stores the options of live sessions while threads that saw an older mask may read them (seqlock).
// The last word is a version, odd during a change. Does nothing if the options are unchanged.
// State::lock held.
inline void store_detail_options(State* s, const DetailOptions& options) noexcept {
  uint64_t words[kDetailOptionWords];
  std::memcpy(words, &options, sizeof options);
  if (std::memcmp(s->detail_options, words, sizeof words) == 0) return;
  uint64_t* version = &s->detail_options[15];
  const uint64_t before = load_relaxed(version);
  store_relaxed(version, before + 1);
  // Release: a reader that sees a new word (acquire in load_detail_options) sees the odd version.
  for (size_t i = 0; i < kDetailOptionWords; ++i) store_release(&s->detail_options[i], words[i]);
  store_release(version, before + 2);
}

// Reads the options. False if they are being changed. Any thread.
inline bool load_detail_options(const State* s, DetailOptions* options) noexcept {
  uint64_t words[kDetailOptionWords];
  const uint64_t* version = &s->detail_options[15];
  const uint64_t before = load_acquire(version);
  for (size_t i = 0; i < kDetailOptionWords; ++i) words[i] = load_acquire(&s->detail_options[i]);
  if ((before & 1) != 0 || load_relaxed(version) != before) return false;
  std::memcpy(options, words, sizeof words);
  return true;
}

// The calling thread's ThreadDetail, allocated in the arena at first use and reused with the track.
// Null if memory is exhausted.
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
  DetailOptions options;
  if (detail == nullptr || !load_detail_options(s, &options)) return 0;
  uint64_t stack = 0;
  if (options.joined_stack)
    if (const auto provider = load_acquire(&s->joined_stack)) stack = provider(caller);
  return encode_detail_begin(words, capacity, options, detail, caller, &kPerfSystem, stack);
}
inline void leader_detail_end(State*, ThreadBlock* block, uint64_t* words) noexcept {
  const Track* track = block->track;
  if (track != nullptr && track->counters != nullptr)
    encode_detail_end(words, static_cast<const ThreadDetail*>(track->counters));
}

// Unload, see RecorderFunctions. Also clears the unwind cache: other code may be loaded at the same
// addresses.
inline void leader_unload_code(State* s, uintptr_t first, uintptr_t last) noexcept {
  clear_unwind_cache();
  leader_unload(s, first, last);
}

// Closes the perf descriptors: at thread exit and, for the forking thread, in the child.
inline void close_track_detail(Track* track) noexcept {
  if (track->counters != nullptr) close_thread_detail(static_cast<ThreadDetail*>(track->counters));
}

FASTPROF_NAMESPACE_END
