// SPDX-License-Identifier: Apache-2.0
// Starting, observing and ending a session inside the recorder. A session owns no buffer: it is a
// time interval and a mask, read from the tracks.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/process/thread_detail.hpp"
#include "fastprof/recorder/bounds.hpp"
#include "fastprof/recorder/calibration.hpp"
#include "fastprof/recorder/local_sessions.hpp"
#include "fastprof/recorder/masks.hpp"
#include "fastprof/recorder/membarrier.hpp"
#include "fastprof/recorder/prefault.hpp"
#include "fastprof/recorder/reclaim_names.hpp"
#include "fastprof/recorder/spill_gate.hpp"
#include "fastprof/recorder/track.hpp"

FASTPROF_NAMESPACE_BEGIN

// A run of records that a drain may read: its session pins the chunk until release_chunks.
struct PinnedRun {
  Chunk* chunk;
  const Slot* end;
  bool closed;           // its thread has moved on: nothing is appended behind `end`
  bool refused = false;  // the session had no room for it: its events are counted, not read
};

struct TrackSnapshot {
  TrackInfo info;
  std::vector<PinnedRun> runs;  // by sequence
};

// What a drain needs, taken at one instant under State::lock.
struct Snapshot {
  uint64_t t0 = 0, t1 = 0;
  uint64_t session_id = 0;
  uint32_t mask = 0;
  bool local = false;
  bool keeps = true;  // not overwriting
  bool exact = true;
  std::vector<TrackSnapshot> tracks;
  std::vector<ClockKnot> knots;
  int64_t unix_offset_ns = 0;
  std::array<uint64_t, kMaxDropCauses> dropped{};
};

inline size_t count_runs(const Snapshot& snapshot) noexcept {
  size_t runs = 0;
  for (const TrackSnapshot& track : snapshot.tracks) runs += track.runs.size();
  return runs;
}

inline TrackInfo track_info(const Track* track) {
  TrackInfo info;
  info.id = track->id;
  info.pid = track->pid;
  info.tid = track->tid;
  info.alive = track->alive != 0;
  info.name.assign(track->name, track->name_length);
  return info;
}

struct SessionRequest {
  uint32_t mask = category::all;
  bool local = false;
  OverflowPolicy policy = OverflowPolicy::drop_newest;
  uint64_t max_bytes = 0;                 // 0: default_max_bytes()
  uint64_t max_name_bytes = 0;            // 0: kDefaultNameBytes
  const DetailOptions* detail = nullptr;  // counters and stacks of ranges; null for none
  bool include_open = false;
  bool follow_fork = false;
  bool inputs = false;  // of RecordFunctions
};

struct Allowance {
  uint64_t max_bytes;
  uint64_t cpus_x100;
};

// What the cgroup allows, read from its files once a process (20 us).
inline Allowance allowance(State* s) noexcept {
  uint64_t cpus = load_acquire(&s->cgroup_cpus_x100);  // stored last; partner: the release below
  if (cpus == 0) {
    store_relaxed(&s->default_max_bytes, default_max_bytes());
    cpus = static_cast<uint64_t>(cgroup_cpus() * 100);
    if (cpus == 0) cpus = 1;
    store_release(&s->cgroup_cpus_x100, cpus);
  }
  return {load_relaxed(&s->default_max_bytes), cpus};
}

// Faults in memory for `bytes` of records, less what is present already, so that recording does not
// pay for it: 0.2 ms for 2 MB, 8 ms where the machine has never touched the memory. Any thread.
inline void warm_up(State* s, uint64_t bytes) noexcept {
  const uint64_t wanted_chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  for (uint64_t chunks = 0; chunks < wanted_chunks; chunks += kChunksPerSlab) {
    BlankSlab blank;
    {
      StateLock hold(s);
      const uint64_t carvable = s->carving != nullptr ? kChunksPerSlab - s->carving->carved : 0;
      if (s->free_count + carvable + s->ready_count * kChunksPerSlab >= wanted_chunks) return;
      blank = take_blank(s);
    }
    if (blank.slab == nullptr) return;
    populate_slab(blank.slab);
    StateLock hold(s);
    init_slab(s, blank);
    blank.slab->next = s->ready;
    s->ready = blank.slab;
    ++s->ready_count;
  }
}

constexpr uint64_t kDefaultNameBytes = uint64_t{64} << 20;
constexpr uint64_t kMinNameBytes = 64 * 1024;
constexpr uint64_t kMinNameLength = 256;
constexpr uint64_t kMaxNameLength = 64 * 1024;

// Bounds the names of the process by what a session that starts asks for; the largest of those that
// run counts. One name may take 1/1024 of it. State::lock held.
inline void bound_names(State* s, uint64_t max_name_bytes) noexcept {
  if (!no_session(s) && max_name_bytes < s->max_name_bytes) return;
  uint64_t length = max_name_bytes / 1024;
  if (length < kMinNameLength) length = kMinNameLength;
  if (length > kMaxNameLength) length = kMaxNameLength;
  s->max_name_bytes = max_name_bytes;
  store_relaxed(&s->max_name_length, length);
}

// Before a session starts: names of earlier ones are freed, unless somebody reads records now.
inline void reclaim_before_start(State* s, uint64_t max_name_bytes) noexcept {
  if (pthread_mutex_trylock(&s->drain_lock) != 0) return;
  {
    StateLock hold(s);
    bound_names(s, max_name_bytes);
    reclaim_many_names(s);
  }
  pthread_mutex_unlock(&s->drain_lock);
}

// Starts a session and returns its slot. Any thread. Throws StateError when 64 run already,
// ValueError for a bound under one chunk.
inline int start_session(State* s, const SessionRequest& request) {
  if (s->functions == nullptr)
    raise<StateError>(
        "this library is not attached to the recorder: include fastprof/fastprof.hpp");
  const uint64_t max_bytes = request.max_bytes != 0 ? request.max_bytes : allowance(s).max_bytes;
  if (max_bytes < kChunkBytes)
    raise<ValueError>("max_bytes must be at least 65536, one chunk of the recorder");
  const uint64_t max_name_bytes =
      request.max_name_bytes != 0 ? request.max_name_bytes : kDefaultNameBytes;
  if (max_name_bytes < kMinNameBytes)
    raise<ValueError>("max_name_bytes must be at least 65536, or 0 for the default of 64 MB");
  const uint32_t cpus = count_usable_cpus(static_cast<double>(allowance(s).cpus_x100) / 100);
  process_barrier(s);       // registers membarrier outside the lock
  warm_up(s, kChunkBytes);  // else the first range pays for 2 MB
  reclaim_before_start(s, max_name_bytes);
  int index = -1;
  {
    StateLock hold(s);
    for (unsigned i = 0; i < kMaxSessions && index < 0; ++i)
      if (s->sessions[i].id == 0) index = static_cast<int>(i);
    if (request.detail != nullptr && index >= 0) {
      if (s->detail_users != 0 &&
          std::memcmp(s->detail_options, request.detail, sizeof(DetailOptions)) != 0)
        index = -2;
      else
        store_detail_options(s, *request.detail);
    }
    if (index >= 0) {
      s->usable_cpus = cpus;
      bound_names(s, max_name_bytes);
      SessionSlot& slot = s->sessions[index];
      // Read without the lock, by threads that look whether they are in a session that was here
      // before: never plainly.
      store_relaxed(&s->next_session_id, s->next_session_id + 1);
      store_relaxed(&slot.id, s->next_session_id);
      store_relaxed(&slot.mask, request.mask);
      store_relaxed(&slot.local, static_cast<uint8_t>(request.local ? 1 : 0));
      store_relaxed(&slot.t1, UINT64_MAX);
      for (uint64_t& count : slot.dropped) store_relaxed(&count, uint64_t{0});
      for (uint64_t& word : slot.reserved) store_relaxed(&word, uint64_t{0});
      slot.pinned_chunks = 0;
      slot.pid = static_cast<uint32_t>(s->pid);
      slot.policy = request.policy;
      slot.follows_fork = request.follow_fork ? 1 : 0;
      slot.wants_detail = request.detail != nullptr ? 1 : 0;
      slot.wants_inputs = request.inputs ? 1 : 0;
      // From the first record on: threads wait for the spill thread, which the caller starts next.
      const bool spills = request.policy == OverflowPolicy::spill_to_file;
      slot.spill_state = spills ? spill_state::active : 0;
      slot.spill_pass = 0;
      slot.max_chunks = max_bytes / kChunkBytes;
      add_knot(s, 32);
      const uint64_t bit = uint64_t{1} << index;
      const bool keeps = request.policy != OverflowPolicy::overwrite_oldest;
      for (Track* track = s->tracks; track != nullptr; track = track->next) {
        for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
          chunk->counted &= ~bit;
          const bool current = chunk->place == ChunkPlace::current;
          const bool wanted = current || (request.include_open && has_open_slots(chunk));
          if (!keeps || !wanted) continue;
          if (chunk->pins == 0 && !current) --track->unpinned;
          chunk->pins |= bit;
          count_pin(slot);
        }
      }
      store_relaxed(&slot.t0, ordered_ticks(s));
      store_release(&slot.live, uint8_t{1});  // partner: acquire in count_dropped
      enlist_session(s, static_cast<unsigned>(index));
      ++s->session_epoch;
      process_barrier(s);
      publish_mask(s);
    }
  }
  if (index == -2)
    raise<StateError>(
        "another session records other counters or stacks with its ranges; all that run at once "
        "must agree");
  if (index < 0) raise<StateError>("64 sessions run already; stop one first");
  return index;
}

// From here on nothing that begins belongs to session `index`. State::lock held.
inline void end_session(State* s, int index) noexcept {
  store_relaxed(&s->sessions[index].t1, ordered_ticks(s));
  delist_session(s, static_cast<unsigned>(index));
  ++s->session_epoch;
  publish_mask(s);
}

// Reads what session `index` has at this instant, or had when it ended, and pins it; what is pinned
// stays so when it throws for want of memory. State::lock held.
inline Snapshot take_snapshot(State* s, int index) {
  SessionSlot& slot = s->sessions[index];
  const uint64_t bit = uint64_t{1} << index;
  Snapshot snapshot;
  snapshot.t0 = slot.t0;
  snapshot.session_id = slot.id;
  snapshot.mask = slot.mask;
  snapshot.local = slot.local != 0;
  snapshot.keeps = slot.policy != OverflowPolicy::overwrite_oldest;
  const bool ended = slot.t1 != UINT64_MAX;
  snapshot.t1 = ended ? slot.t1 : ordered_ticks(s);
  snapshot.exact = process_barrier(s);
  add_knot(s, 32);
  const bool keeps = slot.policy != OverflowPolicy::overwrite_oldest;
  for (Track* track = s->tracks; track != nullptr; track = track->next) {
    TrackSnapshot rows;
    for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
      const Slot* end = chunk_written_end(track, chunk);
      const bool refused = keeps && (chunk->pins & bit) == 0;
      if ((chunk->pins & bit) == 0) {
        if (chunk->close_ticks < slot.t0 || (chunk->counted & bit) != 0) continue;
        // A chunk for which this session had no room. Most full ones were counted when they were
        // closed; the rest is counted by the drain, which waits for slots that are being written.
        if (keeps && !ended) continue;
        if (chunk->pins == 0 && chunk->place == ChunkPlace::full) --track->unpinned;
        chunk->pins |= bit;
        count_pin(slot);
      }
      const bool closed = chunk->place != ChunkPlace::current;
      rows.runs.push_back(PinnedRun{chunk, end, closed, refused});
    }
    if (rows.runs.empty()) continue;
    rows.info = track_info(track);
    snapshot.tracks.push_back(std::move(rows));
  }
  for (size_t i = 0; i < kMaxDropCauses; ++i) snapshot.dropped[i] = load_relaxed(&slot.dropped[i]);
  snapshot.unix_offset_ns = s->unix_offset_ns;
  if (s->knots != nullptr) {
    const KnotList& list = *s->knots;
    uint32_t first = list.count;
    while (first > 0 && list.knots[first - 1].ticks > slot.t0) --first;
    if (first > 1)
      first -= 2;  // one segment before the session as well
    else
      first = 0;
    snapshot.knots.assign(list.knots + first, list.knots + list.count);
  }
  return snapshot;
}

// The chunks of session `index` that their threads have moved on from, without a barrier.
// State::lock held.
inline Snapshot take_closed(State* s, int index) {
  const uint64_t bit = uint64_t{1} << index;
  Snapshot snapshot;
  for (Track* track = s->tracks; track != nullptr; track = track->next) {
    TrackSnapshot rows;
    for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next)
      if ((chunk->pins & bit) != 0 && chunk->place == ChunkPlace::full)
        rows.runs.push_back(PinnedRun{chunk, chunk_written_end(track, chunk), true});
    if (rows.runs.empty()) continue;
    rows.info = track_info(track);
    snapshot.tracks.push_back(std::move(rows));
  }
  return snapshot;
}

// The session holds this chunk no longer. State::lock held.
inline void unpin_chunk(State* s, int index, Chunk* chunk) noexcept {
  const uint64_t bit = uint64_t{1} << index;
  if ((chunk->pins & bit) == 0) return;
  chunk->pins &= ~bit;
  SessionSlot& slot = s->sessions[index];
  store_relaxed(&slot.pinned_chunks, slot.pinned_chunks - 1);
  if (chunk->pins == 0 && chunk->place == ChunkPlace::full) ++chunk->owner->unpinned;
}

// The session has all of this chunk's records: they are neither read again nor counted as refused.
// State::lock held.
inline void finish_chunk(State* s, int index, Chunk* chunk) noexcept {
  chunk->counted |= uint64_t{1} << index;
  unpin_chunk(s, index, chunk);
}

// After a pass of a live drain: what it has read to the end is done with, and an overwriting
// session holds nothing back until its next pass. State::lock held.
inline void release_read(State* s, int index, const Snapshot& snapshot,
                         const std::vector<Chunk*>& consumed) noexcept {
  for (Chunk* chunk : consumed) finish_chunk(s, index, chunk);
  if (snapshot.keeps) return;
  for (const TrackSnapshot& track : snapshot.tracks)
    for (const PinnedRun& run : track.runs) unpin_chunk(s, index, run.chunk);
}

// Hands memory back that no session needs: chunks to the pool, dead tracks, and, when nobody
// records, pages to the kernel. State::lock held.
inline void sweep(State* s) noexcept {
  for (Track* track = s->tracks; track != nullptr;) {
    Track* next = track->next;
    // Registered again in a key destructor, after its block was handed back: no exit of its own
    // will retire it. It may still hold its track, so only when the kernel knows the thread no
    // longer.
    if (track->block == nullptr && track->alive != 0 && track->is_signal == 0 &&
        ::syscall(SYS_tgkill, static_cast<long>(track->pid), static_cast<long>(track->tid), 0) != 0)
      close_track(s, track);
    if (sweep_track(s, track)) free_track(s, track);
    track = next;
  }
  if (s->session_bits == 0) trim_pool(s);
}

// Ends the use of the slot of a session that has ended, whatever was read of it. State::drain_lock
// held, State::lock not.
inline void release_session(State* s, int index) noexcept {
  StateLock hold(s);
  const uint64_t bit = uint64_t{1} << index;
  for (Track* track = s->tracks; track != nullptr; track = track->next) {
    for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
      unpin_chunk(s, index, chunk);
      chunk->counted &= ~bit;
    }
  }
  store_release(&s->sessions[index].live, uint8_t{0});
  store_relaxed(&s->sessions[index].id, uint64_t{0});
  s->sessions[index].spill_state = 0;
  sweep(s);
  reclaim_many_names(s);
}

FASTPROF_NAMESPACE_END
