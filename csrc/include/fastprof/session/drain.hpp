// SPDX-License-Identifier: Apache-2.0
// Drain: reads pinned chunks into rows of ticks. It accumulates the rows of several passes, so that
// during a session (live drain) closed chunks without open ranges can be freed after each pass.
#pragma once

#include <sched.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/payload/blocks/block_interner.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"
#include "fastprof/recorder/state/task_switch.hpp"
#include "fastprof/recorder/state/thread_end.hpp"
#include "fastprof/recorder/store/drops.hpp"
#include "fastprof/session/session_control.hpp"
#include "fastprof/session/site_table.hpp"
#include "fastprof/session/track_rows.hpp"

FASTPROF_NAMESPACE_BEGIN

// An end that was appended as a separate record.
struct EndRecord {
  RecordTag tag;
  uint32_t site;
  uint32_t origin_track;
  uint32_t ending_track;
  uint64_t begin;
  uint64_t end;
  bool end_only;  // site_flag::end_only: no begin was recorded
};

// Everything that a drain has read.
struct DrainedRows {
  std::vector<TrackRows> tracks;
  std::vector<EndRecord> ends;
  Column<uint64_t> payload_words;
  SiteTable table;
  // Sites of task switches. A table of its own, because the sites in `table` are those of events,
  // and a switch may be of a task outside the session.
  SiteTable task_names;
  uint64_t in_flight = 0;
  uint64_t refused = 0;  // events in chunks for which the session had no room
};

// Reads records into DrainedRows, in one pass (stop) or several (live drain). Not thread-safe.
class Drain {
 public:
  // include_open: also keep ranges that were open at t0, flagged `enclosing`; for a thread-local
  // session only those of `own_track`, the track on which the session was started.
  explicit Drain(bool include_open = false, uint32_t own_track = 0)
      : include_open_(include_open), own_track_(own_track) {}

  // A drain of the same kind without rows.
  Drain empty_copy() const { return Drain(include_open_, own_track_); }

  // Reads all runs of the snapshot. State::drain_lock held, State::lock not. Throws std::bad_alloc.
  void read(State* s, const Snapshot& snapshot) { read(s, snapshot, nullptr); }

  // Reads only closed runs without open ranges, and appends their chunks to `consumed` (reserve
  // room for all runs), for the caller to unpin. Locks and errors as for read(). If memory runs out
  // within a run, that run adds no rows.
  void read_finished(State* s, const Snapshot& snapshot, std::vector<Chunk*>& consumed) {
    read(s, snapshot, &consumed);
  }

  DrainedRows& rows() noexcept { return rows_; }
  size_t row_count() const noexcept {
    size_t count = 0;
    for (const TrackRows& track : rows_.tracks) count += track.size();
    return count;
  }

  // Reads one run from a spill file, with the filter of `snapshot`. No lock needed: the run refers
  // to copies of sites.
  void read_spilled(const Snapshot& snapshot, const TrackInfo& track, const PinnedRun& run) {
    aim(snapshot, snapshot.t1);
    read_run(nullptr, track, run);
  }

 private:
  void read(State* s, const Snapshot& snapshot, std::vector<Chunk*>* consumed) {
    if (unload_epoch_ != s->unload_epoch) {
      rows_.table.forget_addresses();
      rows_.task_names.forget_addresses();
      unload_epoch_ = s->unload_epoch;
    }
    aim(snapshot, consumed != nullptr ? UINT64_MAX : snapshot.t1);
    units_ahead_ = units_of(snapshot);
    for (const TrackSnapshot& track : snapshot.tracks) {
      TrackRows& rows = rows_of(track.info);
      size_t most = 0;
      for (const PinnedRun& run : track.runs) most += run.refused ? 0 : units_of(run);
      reserve_rows(rows, rows.size() + most);
      for (const PinnedRun& run : track.runs) {
        if (run.refused) {
          count_run(s, run);
          continue;
        }
        // Skipping a run does not delay later runs (a range around the whole program would delay
        // all): assemble() sorts by begin.
        if (consumed != nullptr && (!run.closed || has_open_slots(run.chunk))) continue;
        read_run(s, track.info, run);
        if (consumed != nullptr) consumed->push_back(run.chunk);
      }
    }
  }

  // Sets the filter that decides which records belong to the session.
  void aim(const Snapshot& snapshot, uint64_t t1) noexcept {
    filter_ = {snapshot.session_id, snapshot.t0, t1, snapshot.mask, snapshot.local};
  }

  TrackRows& rows_of(const TrackInfo& info) {
    std::vector<TrackRows>& tracks = rows_.tracks;
    if (tracks.size() == tracks.capacity()) tracks.reserve(2 * tracks.size() + 8);
    const auto [at, fresh] = track_index_.try_emplace(info.id, tracks.size());
    if (fresh) tracks.emplace_back();  // has room: an index without its rows would stay
    TrackRows& rows = rows_.tracks[at->second];
    rows.info = info;
    return rows;
  }

  // State of a reserved slot after waiting: written; still not written; no longer reserved.
  enum class Unwritten { written, in_flight, handed_back };

  // Waits up to 1 ms for a slot that is reserved but not written. `handed_back`: its thread needed
  // fewer units than it had reserved, so that the slot lies behind the last record.
  static Unwritten wait_written(State* s, const PinnedRun& run, const Slot* slot) noexcept {
    const int64_t until = platform::monotonic_ns() + 1000000;
    do {
      if (load_acquire(&slot->begin) >= run.chunk->open_ticks) return Unwritten::written;
      if (!run.closed) {
        StateLock hold(s);
        if (chunk_written_end(run.chunk->owner, run.chunk) <= slot) return Unwritten::handed_back;
      }
      ::sched_yield();
    } while (platform::monotonic_ns() < until);
    return Unwritten::in_flight;
  }

  // The size of a track before a run was read.
  struct Mark {
    size_t track, rows, switches;
  };

  // Reads a run of the track that `info` describes. `s` is null for a run from a spill file, which
  // is closed. If it throws, no rows have been added.
  void read_run(State* s, const TrackInfo& info, const PinnedRun& run) {
    marks_.clear();
#if FASTPROF_EXCEPTIONS
    const size_t ends_before = rows_.ends.size();
    const uint64_t in_flight_before = rows_.in_flight;
    try {
      read_parts(s, info, run);
    } catch (...) {
      for (auto mark = marks_.rbegin(); mark != marks_.rend(); ++mark) {
        TrackRows& rows = rows_.tracks[mark->track];
        rows.each_column([mark](auto& column) { column.resize(mark->rows); });
        rows.switches.resize(mark->switches);
      }
      rows_.ends.resize(ends_before);
      rows_.in_flight = in_flight_before;
      throw;
    }
#else
    read_parts(s, info, run);
#endif
  }

  // Reads the parts of the threads that ended in the chunk, then that of the run's track.
  void read_parts(State* s, const TrackInfo& info, const PinnedRun& run) {
    const Slot* first = chunk_slots(run.chunk);
    size_t open = 0;
    while (run.shared) {
      const Slot* end = find_thread_end(first, run.end, run.chunk->open_ticks);
      if (end == nullptr) break;
      const Site* site = site_of(load_relaxed(&end->site));
      const ThreadEnd thread = read_thread_end(end, site);
      if (load_relaxed(&end->begin) < filter_.t0) {  // only ends of other threads' ranges count
        before_.each_column([](auto& column) { column.resize(0); });
        before_.switches.clear();
        track_id_ = thread.track_id;
        open += read_slots(s, before_, run, first, end);
      } else {
        TrackInfo part = info;
        part.id = thread.track_id;
        part.tid = thread.tid;
        part.alive = false;
        part.name.assign(thread.name, thread.name_length);
        open += read_part(s, part, run, first, end);
      }
      first = end + 1 + site->arg_units;
    }
    open += read_part(s, info, run, first, run.end);
    // Spares has_open_slots() a scan: a closed range stays closed.
    if (run.closed && open == 0) store_relaxed(&run.chunk->quiet_gen, run.chunk->gen);
  }

  size_t read_part(State* s, const TrackInfo& info, const PinnedRun& run, const Slot* first,
                   const Slot* last) {
    TrackRows& rows = rows_of(info);
    marks_.push_back({track_index_.at(info.id), rows.size(), rows.switches.size()});
    track_id_ = info.id;
    return read_slots(s, rows, run, first, last);
  }

  // Reads records of one thread. Returns the number of open ranges; 1 if a slot is not written.
  size_t read_slots(State* s, TrackRows& rows, const PinnedRun& run, const Slot* slot,
                    const Slot* last) {
    const uint64_t open_ticks = run.chunk->open_ticks;
    membership_ = MembershipWalk(filter_.session_id, filter_.local);
    switches_ = &rows.switches;
    const auto most = static_cast<size_t>(last - slot);
    reserve_rows(rows, rows.size() + most);
    RowWriter writer(rows, most);
    size_t open = 0;
    while (slot < last) {
      if (FASTPROF_UNLIKELY(load_acquire(&slot->begin) < open_ticks)) {
        const Unwritten state = wait_written(s, run, slot);
        if (state == Unwritten::in_flight) ++rows_.in_flight;
        if (state != Unwritten::written) return 1;
      }
      const uintptr_t word = load_relaxed(&slot->site);
      const Site* site = site_of(word);
      const RecordTag tag = tag_of(word);
      const uint32_t units = record_units(slot);
      if (FASTPROF_LIKELY(tag == RecordTag::slot && site->kind == SiteKind::range && units == 1)) {
        open += add_range(writer, slot, site, call_line_of(word));
      } else {
        if (FASTPROF_UNLIKELY(units_ahead_ != 0)) reserve_words();
        add_other(writer, slot, site, tag);
        open += is_open_range(slot, site, tag);
      }
      slot += units;
    }
    return open;
  }

  // Counts the events of a run that the session had no room for.
  void count_run(State* s, const PinnedRun& run) {
    for (;;) {
      const RecordCount count = count_records(run.chunk, run.end, filter_);
      const Unwritten state = count.stopped_at == run.end ? Unwritten::handed_back
                                                          : wait_written(s, run, count.stopped_at);
      if (state == Unwritten::written) continue;
      rows_.refused += count.events;
      if (state == Unwritten::in_flight) ++rows_.in_flight;
      return;
    }
  }

  static size_t units_of(const PinnedRun& run) noexcept {
    return static_cast<size_t>(run.end - chunk_slots(run.chunk));
  }

  static size_t units_of(const Snapshot& snapshot) noexcept {
    size_t units = 0;
    for (const TrackSnapshot& track : snapshot.tracks)
      for (const PinnedRun& run : track.runs) units += run.refused ? 0 : units_of(run);
    return units;
  }

  static void reserve_rows(TrackRows& rows, size_t room) {
    if (room <= rows.begin.capacity()) return;
    if (rows.size() != 0 && room < rows.begin.capacity() * 2) room = rows.begin.capacity() * 2;
    rows.each_column([room](auto& column) { column.reserve(room); });
  }

  // Reserves memory for the words of all records ahead. Called at the first record with words,
  // since plain ranges need none. Reserved memory that stays untouched costs nothing, whereas a
  // growing column is copied and faulted in twice. No record yields more words than it occupies.
  void reserve_words() {
    Column<uint64_t>& words = rows_.payload_words;
    const size_t room = words.size() + 3 * units_ahead_;
    if (room > words.capacity()) words.reserve(std::max(room, words.capacity() * 2));
    units_ahead_ = 0;
  }

  // Whether a record with this begin and the site's categories belongs to the session. Sets
  // `enclosing` in flags if it is listed because of include_open.
  bool in_session(uint64_t begin, uint64_t end, const Site* site, uint8_t& flags) const noexcept {
    if ((site->mask & filter_.mask) == 0 || begin >= filter_.t1) return false;
    if (FASTPROF_LIKELY(begin >= filter_.t0)) return membership_.inside;
    if (!include_open_ || (end != 0 && end >= begin && end <= filter_.t0)) return false;
    if (filter_.local && track_id_ != own_track_) return false;
    flags |= event_flag::enclosing;
    return true;
  }

  // Adds a row for a plain range. Returns 1 if the range is open, else 0.
  size_t add_range(RowWriter& rows, const Slot* slot, const Site* site, uint32_t call_line) {
    const uint64_t begin = load_relaxed(&slot->begin);
    uint64_t end = load_acquire(&slot->end);
    uint8_t flags = 0;
    uint32_t payload = kNoPayload;
    if (call_line != 0) {
      flags = event_flag::call_line;
      payload = call_line;
    }
    if (end < begin) end = 0;
    const size_t open = end == 0 ? 1 : 0;
    if (in_session(begin, end, site, flags))
      rows.add(begin, end, rows_.table.index_of(site), EventKind::range, payload, flags);
    return open;
  }

  // 1 if another record than a plain range is an open range, by the rule of has_open_slots, else 0.
  static size_t is_open_range(const Slot* slot, const Site* site, RecordTag tag) noexcept {
    if ((tag != RecordTag::slot && tag != RecordTag::detailed) || site->kind != SiteKind::range)
      return 0;
    return load_acquire(&slot->end) < load_relaxed(&slot->begin) ? 1 : 0;
  }

  uint32_t add_words(const uint64_t* words, size_t count) {
    const auto at = static_cast<uint32_t>(rows_.payload_words.size());
    for (size_t i = 0; i < count; ++i) rows_.payload_words.push_back(load_relaxed(&words[i]));
    return at;
  }

  void add_other(RowWriter& rows, const Slot* slot, const Site* site, RecordTag tag) {
    const uint64_t begin = load_relaxed(&slot->begin);
    const uint64_t second = load_acquire(&slot->end);
    const auto* words = reinterpret_cast<const uint64_t*>(slot + 1);
    if (tag == RecordTag::late || tag == RecordTag::cross_thread_end ||
        tag == RecordTag::async_end) {
      // For an appended end, `second` is the begin of the range that ends.
      if ((site->mask & filter_.mask) == 0 || (second < filter_.t0 && !include_open_)) return;
      rows_.ends.push_back(
          EndRecord{tag, rows_.table.index_of(site), static_cast<uint32_t>(load_relaxed(&words[0])),
                    static_cast<uint32_t>(load_relaxed(&words[1])), second, load_relaxed(&words[2]),
                    (site->flags & site_flag::end_only) != 0});
      return;
    }
    if (site->kind == SiteKind::session_membership) {
      membership_.apply(second);
      return;
    }
    if (is_task_switch(site)) {
      // Includes switches before the session, which determine what ran at its start.
      if ((site->mask & filter_.mask) != 0 && begin < filter_.t1)
        switches_->push_back({begin, second, rows_.task_names.index_of(site), membership_.inside});
      return;
    }
    uint8_t flags = 0;
    const bool has_end = site->kind == SiteKind::range;
    if (!in_session(begin, has_end ? second : begin, site, flags)) return;
    uint32_t payload = kNoPayload;
    uint64_t end = 0;
    switch (site->kind) {
      case SiteKind::range:
      case SiteKind::async_range:
        end = has_end && second >= begin ? second : 0;
        if (tag == RecordTag::detailed) {
          flags |= event_flag::detail;
          read_detail(words + site->arg_units * 3u);
          payload = add_args(site, words, site->arg_count);
          rows_.payload_words.insert(rows_.payload_words.end(), detail_.begin(), detail_.end());
        } else if (site->arg_count != 0) {
          payload = add_args(site, words, site->arg_count);
        }
        break;
      case SiteKind::mark:
        end = begin;
        if (site->arg_count != 0) payload = add_args(site, words, site->arg_count);
        break;
      case SiteKind::counter:
      case SiteKind::flow_begin:
      case SiteKind::flow_end:
        end = begin;
        payload = add_words(&second, 1);
        break;
      case SiteKind::memory:
      case SiteKind::out_of_memory: {
        payload = add_words(&second, 1);
        add_words(words, 2);
        const uint64_t packed = load_relaxed(&words[2]);
        if (site->kind == SiteKind::memory)
          rows_.payload_words.push_back(packed & ((uint64_t{1} << 48) - 1));
        rows.add(begin, begin,
                 rows_.table.device_index_of(site, static_cast<uint16_t>(packed >> 48)), site->kind,
                 payload, flags);
        return;
      }
      case SiteKind::session_membership:
        break;
    }
    rows.add(begin, end, rows_.table.index_of(site), site->kind, payload, flags);
  }

  uint32_t add_args(const Site* site, const uint64_t* words, unsigned count) {
    const auto at = static_cast<uint32_t>(rows_.payload_words.size());
    for (unsigned i = 0; i < count; ++i) {
      uint64_t word = load_relaxed(&words[i]);
      if (site->arg_types[i] == ArgType::string)
        word =
            rows_.table.string_index(reinterpret_cast<const char*>(static_cast<uintptr_t>(word)));
      rows_.payload_words.push_back(word);
    }
    return at;
  }

  // Copies the header and blocks of a detailed record to `detail_`, without the padding. Pointers
  // to interned texts and ids of Python stacks become indices into the strings; op inputs become a
  // reference to the first equal block.
  void read_detail(const uint64_t* words) {
    detail_.assign(1, 0);
    for_each_block(words, SIZE_MAX, [this](DetailBlock block, const uint64_t* contents) {
      if (block.type == DetailType::op_inputs) {
        detail_.push_back(shared_block_word(share_block(contents - 1, block.count)));
        return;
      }
      detail_.push_back(load_relaxed(contents - 1));
      for (size_t i = 0; i < block.count; ++i) detail_.push_back(load_relaxed(&contents[i]));
      if (block.count == 0) return;
      uint64_t& first = detail_[detail_.size() - block.count];
      if (block.type == DetailType::python_stack)
        first = rows_.table.stack_index(first);
      else if (is_text(block.type))
        first =
            rows_.table.string_index(reinterpret_cast<const char*>(static_cast<uintptr_t>(first)));
    });
    const uint64_t header = load_relaxed(words);
    detail_[0] = (header & ~uint64_t{0xFFFFFFFF}) | (detail_.size() - 1);
  }

  // Index in payload_words of the first block with this content; appends the block if there is
  // none. `words`: the DetailBlock word, then `size` words.
  uint32_t share_block(const uint64_t* words, size_t size) {
    Column<uint64_t>& pool = rows_.payload_words;
    const size_t at = pool.size();
    pool.resize(at + 1 + size);
    for (size_t i = 0; i <= size; ++i) pool[at + i] = load_relaxed(&words[i]);
    const uint32_t first =
        blocks_.first_of(pool.data(), static_cast<uint32_t>(at), static_cast<uint32_t>(1 + size));
    if (first != at) pool.resize(at);
    return first;
  }

  DrainedRows rows_;
  BlockInterner blocks_;          // of inputs, in rows_.payload_words
  std::vector<uint64_t> detail_;  // of the record being read
  std::unordered_map<uint32_t, size_t> track_index_;
  uint64_t unload_epoch_ = 0;
  RecordFilter filter_{};
  MembershipWalk membership_{0, false};
  std::vector<Mark> marks_;                      // of the run being read
  TrackRows before_;                             // of threads that ended before the session
  uint32_t track_id_ = 0;                        // of the run being read
  std::vector<TaskSwitch>* switches_ = nullptr;  // likewise
  size_t units_ahead_ = 0;  // units of this pass; 0 once reserve_words() has run
  bool include_open_;
  uint32_t own_track_;
};

FASTPROF_NAMESPACE_END
