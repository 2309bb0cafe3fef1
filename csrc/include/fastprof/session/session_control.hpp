// SPDX-License-Identifier: Apache-2.0
// Session control: starts, reads and ends sessions in the recorder. A session owns no buffer: it is
// a time interval and a mask that select records from the tracks.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/leader/thread_detail.hpp"
#include "fastprof/platform/process.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/recorder/hot_path/local_sessions.hpp"
#include "fastprof/recorder/names/reclaim_names.hpp"
#include "fastprof/recorder/process/masks.hpp"
#include "fastprof/recorder/process/membarrier.hpp"
#include "fastprof/recorder/state/bounds.hpp"
#include "fastprof/recorder/store/calibration.hpp"
#include "fastprof/recorder/store/prefault.hpp"
#include "fastprof/recorder/store/spill_gate.hpp"
#include "fastprof/recorder/store/track.hpp"
#include "fastprof/session/session_file.hpp"

FASTPROF_NAMESPACE_BEGIN

// Records of one chunk that a drain may read: the session pins the chunk until release_read().
struct PinnedRun {
  Chunk* chunk;
  const Slot* end;
  bool closed;           // its thread has taken another chunk: no record follows `end`
  bool refused = false;  // the session had no room for the chunk: events are counted, not read
  bool shared = false;   // contains records of threads that have ended: see thread_end.hpp
};

// The pinned runs of one track.
struct TrackSnapshot {
  TrackInfo info;
  std::vector<PinnedRun> runs;  // by sequence
};

// A session's state and its pinned chunks at one instant, taken under State::lock.
struct Snapshot {
  uint64_t t0 = 0, t1 = 0;
  uint64_t tasks_since = 0;  // SessionSlot::tasks_since; 0: t0
  uint64_t session_id = 0;
  uint32_t mask = 0;
  bool local = false;
  bool keeps = true;  // does not overwrite
  bool exact = true;  // the barrier was exact: see process_barrier()
  std::vector<TrackSnapshot> tracks;
  std::vector<ClockKnot> knots;
  int64_t unix_offset_ns = 0;
  std::array<uint64_t, kMaxDropCauses> dropped{};
};

// Number of runs of all tracks.
inline size_t count_runs(const Snapshot& snapshot) noexcept {
  size_t runs = 0;
  for (const TrackSnapshot& track : snapshot.tracks) runs += track.runs.size();
  return runs;
}

// Describes a track. State::lock held. Throws std::bad_alloc.
inline TrackInfo track_info(const Track* track) {
  TrackInfo info;
  info.id = track->id;
  info.pid = track->pid;
  info.tid = track->tid;
  info.alive = track->alive != 0;
  info.name.assign(track->name, track->name_length);
  return info;
}

// Parameters of start_session.
struct SessionRequest {
  uint32_t mask = category::all;
  bool local = false;
  OverflowPolicy policy = OverflowPolicy::drop_newest;
  uint64_t max_bytes = 0;                 // 0: default_max_bytes()
  uint64_t max_name_bytes = 0;            // 0: kDefaultNameBytes
  const DetailOptions* detail = nullptr;  // counters and stacks of ranges; null: neither
  bool include_open = false;
  bool follow_fork = false;
  bool inputs = false;                // record inputs of RecordFunctions
  const FileRequest* file = nullptr;  // the backing file; null: anonymous memory
};

// Limits from the cgroup: default memory bound in bytes, CPUs in hundredths.
struct Allowance {
  uint64_t max_bytes;
  uint64_t cpus_x100;
};

// The cgroup's limits, read from its files once per process (20 us).
inline Allowance allowance(State* s) noexcept {
  uint64_t cpus = load_acquire(&s->cgroup_cpus_x100);  // stored last; partner: the release below
  if (cpus == 0) {
    store_relaxed(&s->default_max_bytes, default_max_bytes());
    cpus = static_cast<uint64_t>(platform::quota_cpus() * 100);
    if (cpus == 0) cpus = 1;
    store_release(&s->cgroup_cpus_x100, cpus);
  }
  return {load_relaxed(&s->default_max_bytes), cpus};
}

// Faults in memory for `bytes` of records, minus the memory that is present already, so that
// recording causes no page faults. 0.2 ms for 2 MB, 8 ms on memory that the machine has never
// touched. Any thread.
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
    add_ready(s, blank.slab);
  }
}

constexpr uint64_t kDefaultNameBytes = uint64_t{64} << 20;
constexpr uint64_t kMinNameBytes = 64 * 1024;
constexpr uint64_t kMinNameLength = 256;
constexpr uint64_t kMaxNameLength = 64 * 1024;

// Sets the process's bound of session names to `max_name_bytes`, unless a running session has a
// larger one. A single name may use 1/1024 of it. State::lock held.
inline void bound_names(State* s, uint64_t max_name_bytes) noexcept {
  if (!no_session(s) && max_name_bytes < s->max_name_bytes) return;
  uint64_t length = max_name_bytes / 1024;
  if (length < kMinNameLength) length = kMinNameLength;
  if (length > kMaxNameLength) length = kMaxNameLength;
  s->max_name_bytes = max_name_bytes;
  store_relaxed(&s->max_name_length, length);
}

// Before a session starts: frees names of earlier sessions, unless a thread is reading records.
inline void reclaim_before_start(State* s, uint64_t max_name_bytes) noexcept {
  if (pthread_mutex_trylock(&s->drain_lock) != 0) return;
  {
    StateLock hold(s);
    bound_names(s, max_name_bytes);
    reclaim_many_names(s);
  }
  pthread_mutex_unlock(&s->drain_lock);
}

// Since when the sessions that run at the start of `starting` record the task switches of all
// threads. State::lock held.
inline uint64_t tasks_recorded_since(const State* s, const SessionSlot& starting) noexcept {
  uint64_t since = starting.t0;
  for (uint64_t rest = s->session_bits; rest != 0; rest &= rest - 1) {
    const SessionSlot& other = s->sessions[__builtin_ctzll(rest)];
    if (&other != &starting && other.local == 0 && (other.mask & category::task) != 0 &&
        other.tasks_since != 0 && other.tasks_since < since)
      since = other.tasks_since;
  }
  return since;
}

// Starts a session and returns the index of its slot. Any thread. Throws StateError if 64 sessions
// run, if another session records other counters or stacks, or if no recorder is attached;
// ValueError for a bound below 64 KB; for a backing file also what bring_file_into_force() throws,
// with its result in `report`.
inline int start_session(State* s, const SessionRequest& request, BackingReport* report = nullptr) {
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
  process_barrier(s);  // registers membarrier outside the lock
  const bool backed = request.file != nullptr && report != nullptr;
  if (backed) *report = bring_file_into_force(s, *request.file);
  warm_up(s, kChunkBytes);  // otherwise the first range faults in 2 MB
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
      // Atomic stores: threads read these without the lock, to test their membership in the slot's
      // previous session.
      store_relaxed(&s->next_session_id, s->next_session_id + 1);
      store_relaxed(&slot.id, s->next_session_id);
      store_relaxed(&slot.mask, request.mask);
      store_relaxed(&slot.local, static_cast<uint8_t>(request.local ? 1 : 0));
      store_relaxed(&slot.t1, UINT64_MAX);
      for (uint64_t& count : slot.dropped) store_relaxed(&count, uint64_t{0});
      for (uint64_t& word : slot.reserved) store_relaxed(&word, uint64_t{0});
      store_relaxed(&slot.dropped_in_file, static_cast<uint64_t*>(nullptr));
      slot.pinned_chunks = 0;
      slot.pid = static_cast<uint32_t>(s->pid);
      slot.policy = request.policy;
      slot.follows_fork = request.follow_fork ? 1 : 0;
      slot.wants_detail = request.detail != nullptr ? 1 : 0;
      slot.wants_inputs = request.inputs ? 1 : 0;
      // Set here, because threads must wait for the spill thread from the first record on; the
      // caller starts it next.
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
      store_relaxed(&slot.tasks_since, tasks_recorded_since(s, slot));
      if (backed && report->opened) s->backing_file->owner = static_cast<uint32_t>(index);
      write_file_session(s, static_cast<unsigned>(index), backed && report->opened);
      store_release(&slot.live, uint8_t{1});  // partner: acquire in count_dropped
      enlist_session(s, static_cast<unsigned>(index));
      ++s->session_epoch;
      process_barrier(s);
      publish_mask(s);
    } else if (backed && report->opened) {
      end_file(s);
    }
  }
  if (index < 0 && backed && report->opened) ::unlink(request.file->path.c_str());
  if (index == -2)
    raise<StateError>(
        "another running session records different counters or stacks. Use the same options in all "
        "concurrent sessions.");
  if (index < 0) raise<StateError>("64 sessions are running, which is the maximum; stop one first");
  return index;
}

// Ends session `index`: events that begin later do not belong to it. State::lock held.
inline void end_session(State* s, int index) noexcept {
  store_relaxed(&s->sessions[index].t1, ordered_ticks(s));
  delist_session(s, static_cast<unsigned>(index));
  ++s->session_epoch;
  publish_mask(s);
  end_file_session(s, static_cast<unsigned>(index));
}

// Takes a snapshot of session `index` as it is now, or was when it ended, and pins the
// chunks in it. If it throws std::bad_alloc, the pins remain. State::lock held.
inline Snapshot take_snapshot(State* s, int index) {
  SessionSlot& slot = s->sessions[index];
  const uint64_t bit = uint64_t{1} << index;
  Snapshot snapshot;
  snapshot.t0 = slot.t0;
  snapshot.tasks_since = slot.tasks_since;
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
        // The session had no room for this chunk. Most such chunks were counted when they were
        // closed; the drain counts the rest, because it can wait for slots that are being written.
        if (keeps && !ended) continue;
        if (chunk->pins == 0 && chunk->place == ChunkPlace::full) --track->unpinned;
        chunk->pins |= bit;
        count_pin(slot);
      }
      const bool closed = chunk->place != ChunkPlace::current;
      rows.runs.push_back(PinnedRun{chunk, end, closed, refused, chunk->part_bytes != 0});
    }
    // A live thread without records may be named by another one's: see track_of_thread().
    if (rows.runs.empty() && track->alive == 0) continue;
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
      first -= 2;  // include one segment before the session
    else
      first = 0;
    snapshot.knots.assign(list.knots + first, list.knots + list.count);
  }
  return snapshot;
}

// The closed chunks that session `index` pins, without a barrier. State::lock held.
inline Snapshot take_closed(State* s, int index) {
  const uint64_t bit = uint64_t{1} << index;
  Snapshot snapshot;
  for (Track* track = s->tracks; track != nullptr; track = track->next) {
    TrackSnapshot rows;
    for (Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next)
      if ((chunk->pins & bit) != 0 && chunk->place == ChunkPlace::full)
        rows.runs.push_back(
            PinnedRun{chunk, chunk_written_end(track, chunk), true, false, chunk->part_bytes != 0});
    if (rows.runs.empty()) continue;
    rows.info = track_info(track);
    snapshot.tracks.push_back(std::move(rows));
  }
  return snapshot;
}

// Removes the session's pin from a chunk. State::lock held.
inline void unpin_chunk(State* s, int index, Chunk* chunk) noexcept {
  const uint64_t bit = uint64_t{1} << index;
  if ((chunk->pins & bit) == 0) return;
  chunk->pins &= ~bit;
  SessionSlot& slot = s->sessions[index];
  store_relaxed(&slot.pinned_chunks, slot.pinned_chunks - 1);
  if (chunk->pins == 0 && chunk->place == ChunkPlace::full) ++chunk->owner->unpinned;
}

// Marks a chunk as read by the session, so that it is neither read again nor counted as refused,
// and unpins it. State::lock held.
inline void finish_chunk(State* s, int index, Chunk* chunk) noexcept {
  chunk->counted |= uint64_t{1} << index;
  unpin_chunk(s, index, chunk);
}

// Ends a pass of a live drain: releases the chunks it has read; an overwriting session releases the
// unread ones too, until its next pass. State::lock held.
inline void release_read(State* s, int index, const Snapshot& snapshot,
                         const std::vector<Chunk*>& consumed) noexcept {
  for (Chunk* chunk : consumed) finish_chunk(s, index, chunk);
  if (snapshot.keeps) return;
  for (const TrackSnapshot& track : snapshot.tracks)
    for (const PinnedRun& run : track.runs) unpin_chunk(s, index, run.chunk);
}

// Frees memory that no session needs: chunks, dead threads' tracks and, if no session is live,
// pages. State::lock held.
inline void sweep(State* s) noexcept {
  for (Track* track = s->tracks; track != nullptr;) {
    Track* next = track->next;
    // A thread that recorded in a key destructor after its retirement was registered again, and no
    // thread exit retires that track. It may still use the track, so close it only once the kernel
    // no longer knows the thread.
    if (track->block == nullptr && track->alive != 0 && track->is_signal == 0 &&
        !platform::thread_exists(track->pid, track->tid))
      close_track(s, track);
    if (sweep_track(s, track)) free_track(s, track);
    track = next;
  }
  if (s->session_bits == 0) trim_pool(s);
}

// Frees the slot of an ended session, whether or not it was read. State::drain_lock held,
// State::lock not.
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
  seal_file(s);
  reclaim_many_names(s);
}

FASTPROF_NAMESPACE_END
