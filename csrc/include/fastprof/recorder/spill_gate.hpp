// SPDX-License-Identifier: Apache-2.0
// Back-pressure of sessions that spill: a thread that needs a new chunk while such a session is at
// its bound waits until the spill thread (session/spill.hpp) has moved chunks to the file.
//
// The bound is exceeded only by what cannot be moved: each thread's current chunk, and chunks that
// hold open ranges. Nothing waits once the file refuses a write, and no wait without progress lasts
// longer than kSpillPatienceNs; records are then dropped and counted.
#pragma once

#include <climits>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/clock.hpp"
#include "fastprof/recorder/prefault.hpp"
#include "fastprof/recorder/state.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr int64_t kSpillPatienceNs = 1000000000;

// Bits of SessionSlot::spill_state. Changed under State::lock.
namespace spill_state {
constexpr uint8_t active = 1;   // chunks are moved to a file
constexpr uint8_t failing = 2;  // the file refused the last write
constexpr uint8_t stalled = 4;  // a thread lost patience; no pass has ended since
constexpr uint8_t ending = 8;   // the session is being stopped: nobody waits any more
}  // namespace spill_state

// Asks the spill threads for a pass. Any thread.
inline void request_spill(State* s) noexcept {
  __atomic_fetch_add(&s->spill_requests, 1u, __ATOMIC_RELEASE);
  futex(&s->spill_requests, FUTEX_WAKE, INT_MAX, nullptr);
}

// Tells the threads in await_spill to look again. State::lock held, so that none misses it.
inline void announce_spill(State* s) noexcept {
  __atomic_fetch_add(&s->spill_progress, 1u, __ATOMIC_RELEASE);
  futex(&s->spill_progress, FUTEX_WAKE, INT_MAX, nullptr);
}

// Chunks that a spilling session may hold when open ranges keep them from being moved.
inline uint64_t most_chunks_held(const State* s, const SessionSlot& slot) noexcept {
  constexpr uint64_t fallback_bytes = uint64_t{256} << 20;
  const uint64_t bytes = load_relaxed(&s->default_max_bytes);
  return slot.max_chunks + (bytes != 0 ? bytes : fallback_bytes) / kChunkBytes;
}

// Waits for session `index`, which is at its bound; true when it may take one chunk beyond. Drops
// State::lock meanwhile.
inline bool await_spill(State* s, int index) noexcept {
  SessionSlot& slot = s->sessions[index];
  const uint64_t id = slot.id;
  // A pass that begins from here on sees the chunk that this thread has just closed.
  const auto wanted = static_cast<uint8_t>(slot.spill_pass + 2 + slot.spill_pass % 2);
  int64_t deadline = clock_ns(CLOCK_MONOTONIC) + kSpillPatienceNs;
  for (;;) {
    if (slot.pinned_chunks >= most_chunks_held(s, slot)) return false;
    if ((slot.spill_state & (spill_state::failing | spill_state::stalled)) != 0) return false;
    if ((slot.spill_state & spill_state::ending) != 0) return true;
    const uint32_t seen = load_acquire(&s->spill_progress);
    __atomic_fetch_add(&s->spill_requests, 1u, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->lock);
    futex(&s->spill_requests, FUTEX_WAKE, INT_MAX, nullptr);
    const timespec pause{0, 100000000};
    futex(&s->spill_progress, FUTEX_WAIT, seen, &pause);
    pthread_mutex_lock(&s->lock);
    if (slot.id != id || (slot.spill_state & spill_state::active) == 0) return false;
    if (slot.pinned_chunks < slot.max_chunks) return false;  // there is room
    if (static_cast<int8_t>(static_cast<uint8_t>(slot.spill_pass - wanted)) >= 0) return true;
    const int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (load_acquire(&s->spill_progress) != seen) deadline = now + kSpillPatienceNs;
    if (now > deadline) slot.spill_state |= spill_state::stalled;
  }
}

// Makes room in the sessions that spill. Returns those that may take a chunk beyond their bound.
// State::lock held at call and return, and given up in between: what was read before may have
// changed.
inline uint64_t pass_spill_gate(State* s) noexcept {
  uint64_t lifted = 0;
  bool request = false;
  for (uint64_t rest = s->session_bits & s->keep_bits; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctzll(rest);
    const SessionSlot& slot = s->sessions[i];
    if ((slot.spill_state & spill_state::active) == 0) continue;
    if (slot.pinned_chunks >= slot.max_chunks) {
      if (await_spill(s, i)) lifted |= uint64_t{1} << i;
    } else {
      request = request || slot.pinned_chunks * 2 >= slot.max_chunks;
    }
  }
  if (request) request_spill(s);
  return lifted & s->session_bits;
}

FASTPROF_NAMESPACE_END
