// SPDX-License-Identifier: Apache-2.0
// Spill gate: back-pressure of sessions that spill. While such a session is at its bound, a thread
// that needs a new chunk waits until the spill thread (session/spill.hpp) has moved chunks to the
// file.
//
// The bound is exceeded only by chunks that cannot be moved: each thread's current chunk, and
// chunks with open ranges. No thread waits after the file has refused a write, and none waits
// longer than kSpillPatienceNs without progress; records are then dropped and counted.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/platform/wait_word.hpp"
#include "fastprof/recorder/state/clock.hpp"
#include "fastprof/recorder/state/state.hpp"
#include "fastprof/recorder/store/prefault.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr int64_t kSpillPatienceNs = 1000000000;

// Bits of SessionSlot::spill_state. Changed under State::lock.
namespace spill_state {
constexpr uint8_t active = 1;   // the session moves chunks to a file
constexpr uint8_t failing = 2;  // the last write to the file failed
constexpr uint8_t stalled = 4;  // a thread timed out; no pass has ended since
constexpr uint8_t ending = 8;   // the session is being stopped: threads no longer wait
}  // namespace spill_state

// Wakes the spill threads for a pass. Any thread.
inline void request_spill(State* s) noexcept {
  __atomic_fetch_add(&s->spill_requests, 1u, __ATOMIC_RELEASE);
  platform::wake_all(&s->spill_requests);
}

// Wakes the threads in await_spill, which test their conditions again. State::lock held, so that no
// wake-up is lost.
inline void announce_spill(State* s) noexcept {
  __atomic_fetch_add(&s->spill_progress, 1u, __ATOMIC_RELEASE);
  platform::wake_all(&s->spill_progress);
}

// Maximum number of chunks of a spilling session if open ranges prevent moving them.
inline uint64_t most_chunks_held(const State* s, const SessionSlot& slot) noexcept {
  constexpr uint64_t fallback_bytes = uint64_t{256} << 20;
  const uint64_t bytes = load_relaxed(&s->default_max_bytes);
  return slot.max_chunks + (bytes != 0 ? bytes : fallback_bytes) / kChunkBytes;
}

// Waits for room in session `index`, which is at its bound. Returns true if the session may exceed
// its bound by one chunk. State::lock held at call and return, released in between.
inline bool await_spill(State* s, int index) noexcept {
  SessionSlot& slot = s->sessions[index];
  const uint64_t id = slot.id;
  // spill_pass at the end of the first pass that begins after this point. That pass sees the chunk
  // that this thread has just closed.
  const auto wanted = static_cast<uint8_t>(slot.spill_pass + 2 + slot.spill_pass % 2);
  int64_t deadline = platform::monotonic_ns() + kSpillPatienceNs;
  for (;;) {
    if (slot.pinned_chunks >= most_chunks_held(s, slot)) return false;
    if ((slot.spill_state & (spill_state::failing | spill_state::stalled)) != 0) return false;
    if ((slot.spill_state & spill_state::ending) != 0) return true;
    const uint32_t seen = load_acquire(&s->spill_progress);
    __atomic_fetch_add(&s->spill_requests, 1u, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->lock);
    platform::wake_all(&s->spill_requests);
    platform::wait_word(&s->spill_progress, seen, 100000000);
    pthread_mutex_lock(&s->lock);
    if (slot.id != id || (slot.spill_state & spill_state::active) == 0) return false;
    if (slot.pinned_chunks < slot.max_chunks) return false;  // there is room
    if (static_cast<int8_t>(static_cast<uint8_t>(slot.spill_pass - wanted)) >= 0) return true;
    const int64_t now = platform::monotonic_ns();
    if (load_acquire(&s->spill_progress) != seen) deadline = now + kSpillPatienceNs;
    if (now > deadline) slot.spill_state |= spill_state::stalled;
  }
}

// Waits for room in the sessions that spill. Returns those that may take a chunk beyond their
// bound. State::lock held at call and return but released in between: anything read before may have
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
