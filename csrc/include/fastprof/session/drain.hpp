// SPDX-License-Identifier: Apache-2.0
// Drain: from pinned chunks to rows in ticks. Accumulates over several passes (live drain), so
// chunks that are closed and have no open range can be given back while the session goes on.
#pragma once

#include <sched.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/range_detail/known_blocks.hpp"
#include "fastprof/recorder/drops.hpp"
#include "fastprof/session/session_control.hpp"
#include "fastprof/session/site_table.hpp"
#include "fastprof/session/track_rows.hpp"

FASTPROF_NAMESPACE_BEGIN

// An end that was appended as a record of its own.
struct EndRecord {
  RecordTag tag;
  uint32_t site;
  uint32_t origin_track;
  uint32_t ending_track;
  uint64_t begin;
  uint64_t end;
};

struct DrainedRows {
  std::vector<TrackRows> tracks;
  std::vector<EndRecord> ends;
  Column<uint64_t> payload_words;
  SiteTable table;
  uint64_t in_flight = 0;
  uint64_t refused = 0;  // events in chunks for which the session had no room
};

class Drain {
 public:
  // include_open: rows begun before t0 that were open then are kept, flagged `enclosing`; in a
  // thread-local session those of track `own_track`, where it was started.
  explicit Drain(bool include_open = false, uint32_t own_track = 0)
      : include_open_(include_open), own_track_(own_track) {}

  // Reads all runs; State::drain_lock held, State::lock not. Throws std::bad_alloc.
  void read(State* s, const Snapshot& snapshot) { read(s, snapshot, nullptr); }

  // Leaves runs alone that are not closed or hold open ranges, and appends the chunks that it has
  // read to `consumed` (the caller unpins them), which has room for all runs. The same otherwise;
  // of a run that it could not read to the end for want of memory there are no rows.
  void read_finished(State* s, const Snapshot& snapshot, std::vector<Chunk*>& consumed) {
    read(s, snapshot, &consumed);
  }

  DrainedRows& rows() noexcept { return rows_; }
  size_t row_count() const noexcept {
    size_t count = 0;
    for (const TrackRows& track : rows_.tracks) count += track.size();
    return count;
  }

  // Reads one run that a spill file hands back, by the rules of `snapshot`. No lock needed: its
  // sites are copies.
  void read_spilled(const Snapshot& snapshot, const TrackInfo& track, const PinnedRun& run) {
    aim(snapshot, snapshot.t1);
    TrackRows& rows = rows_of(track);
    track_id_ = track.id;
    read_run(nullptr, rows, run);
  }

 private:
  void read(State* s, const Snapshot& snapshot, std::vector<Chunk*>* consumed) {
    if (unload_epoch_ != s->unload_epoch) {
      rows_.table.forget_addresses();
      unload_epoch_ = s->unload_epoch;
    }
    aim(snapshot, consumed != nullptr ? UINT64_MAX : snapshot.t1);
    units_ahead_ = units_of(snapshot);
    for (const TrackSnapshot& track : snapshot.tracks) {
      TrackRows& rows = rows_of(track.info);
      track_id_ = track.info.id;
      size_t most = 0;
      for (const PinnedRun& run : track.runs) most += run.refused ? 0 : units_of(run);
      reserve_rows(rows, rows.size() + most);
      for (const PinnedRun& run : track.runs) {
        if (run.refused) {
          count_run(s, run);
          continue;
        }
        // What has to wait does not hold up what comes after it (a range around the whole program
        // would hold up everything): assemble sorts by begin.
        if (consumed != nullptr && (!run.closed || has_open_slots(run.chunk))) continue;
        read_run(s, rows, run);
        if (consumed != nullptr) consumed->push_back(run.chunk);
      }
    }
  }

  // What decides whether a record is the session's: the same for memory and for a spill file.
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

  enum class Unwritten { written, in_flight, handed_back };

  // Waits up to 1 ms for a slot that is reserved and not written yet. Its thread may have needed
  // less than it had reserved: then the slot is behind the end of its records.
  static Unwritten wait_written(State* s, const PinnedRun& run, const Slot* slot) noexcept {
    const int64_t until = clock_ns(CLOCK_MONOTONIC) + 1000000;
    do {
      if (load_acquire(&slot->begin) >= run.chunk->open_ticks) return Unwritten::written;
      if (!run.closed) {
        StateLock hold(s);
        if (chunk_written_end(run.chunk->owner, run.chunk) <= slot) return Unwritten::handed_back;
      }
      ::sched_yield();
    } while (clock_ns(CLOCK_MONOTONIC) < until);
    return Unwritten::in_flight;
  }

  // `s`: null for a run from a spill file, which is closed. When it throws, it has added nothing.
  void read_run(State* s, TrackRows& rows, const PinnedRun& run) {
#if FASTPROF_EXCEPTIONS
    const size_t rows_before = rows.size(), ends_before = rows_.ends.size();
    const uint64_t in_flight_before = rows_.in_flight;
    try {
      read_slots(s, rows, run);
    } catch (...) {
      rows.each_column([rows_before](auto& column) { column.resize(rows_before); });
      rows_.ends.resize(ends_before);
      rows_.in_flight = in_flight_before;
      throw;
    }
#else
    read_slots(s, rows, run);
#endif
  }

  void read_slots(State* s, TrackRows& rows, const PinnedRun& run) {
    Chunk* chunk = run.chunk;
    const uint64_t open_ticks = chunk->open_ticks;
    segments_ = SegmentWalk(filter_.session_id, filter_.local);
    reserve_rows(rows, rows.size() + units_of(run));
    RowWriter writer(rows, units_of(run));
    size_t open = 0;
    for (const Slot* slot = chunk_slots(chunk); slot < run.end;) {
      if (FASTPROF_UNLIKELY(load_acquire(&slot->begin) < open_ticks)) {
        const Unwritten state = wait_written(s, run, slot);
        if (state == Unwritten::in_flight) ++rows_.in_flight;
        if (state != Unwritten::written) return;
      }
      const uintptr_t word = load_relaxed(&slot->site);
      const Site* site = site_of(word);
      const RecordTag tag = tag_of(word);
      const uint32_t units = record_units(slot);
      if (FASTPROF_LIKELY(tag == RecordTag::slot && site->kind == SiteKind::range && units == 1)) {
        open += add_range(writer, slot, site);
      } else {
        if (FASTPROF_UNLIKELY(units_ahead_ != 0)) reserve_words();
        add_other(writer, slot, site, tag);
        open += is_open_range(slot, site, tag);
      }
      slot += units;
    }
    // Spares the scan when the chunk is given back. Closed ranges stay closed.
    if (run.closed && open == 0) store_relaxed(&chunk->quiet_gen, chunk->gen);
  }

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

  // Called with the first record that has words: ranges alone need no room for any. Untouched
  // memory costs nothing, while a column that grows is copied and faulted in twice. No record gives
  // more words than it has.
  void reserve_words() {
    Column<uint64_t>& words = rows_.payload_words;
    const size_t room = words.size() + 3 * units_ahead_;
    if (room > words.capacity()) words.reserve(std::max(room, words.capacity() * 2));
    units_ahead_ = 0;
  }

  // Whether a record of this begin and these categories is the session's; flags gets `enclosing`
  // where it applies.
  bool in_session(uint64_t begin, uint64_t end, const Site* site, uint8_t& flags) const noexcept {
    if ((site->mask & filter_.mask) == 0 || begin >= filter_.t1) return false;
    if (FASTPROF_LIKELY(begin >= filter_.t0)) return segments_.inside;
    if (!include_open_ || (end != 0 && end >= begin && end <= filter_.t0)) return false;
    if (filter_.local && track_id_ != own_track_) return false;
    flags |= event_flag::enclosing;
    return true;
  }

  // Returns 1 when the range is open, else 0.
  size_t add_range(RowWriter& rows, const Slot* slot, const Site* site) {
    const uint64_t begin = load_relaxed(&slot->begin);
    uint64_t end = load_acquire(&slot->end);
    uint8_t flags = 0;
    if (end < begin) end = 0;
    const size_t open = end == 0 ? 1 : 0;
    if (in_session(begin, end, site, flags))
      rows.add(begin, end, rows_.table.index_of(site), EventKind::range, kNoPayload, flags);
    return open;
  }

  // Of other records than the usual, by the rule of has_open_slots.
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
    if (tag == RecordTag::late || tag == RecordTag::foreign_end || tag == RecordTag::async_end) {
      // `second` is the begin of what ends here.
      if ((site->mask & filter_.mask) == 0 || (second < filter_.t0 && !include_open_)) return;
      rows_.ends.push_back(EndRecord{
          tag, rows_.table.index_of(site), static_cast<uint32_t>(load_relaxed(&words[0])),
          static_cast<uint32_t>(load_relaxed(&words[1])), second, load_relaxed(&words[2])});
      return;
    }
    if (site->kind == SiteKind::segment) {
      segments_.see(second);
      return;
    }
    uint8_t flags = 0;
    const bool has_end = site->kind == SiteKind::range;
    if (!in_session(begin, has_end ? second : begin, site, flags)) return;
    if (!has_end && site->kind != SiteKind::async_range && (flags & event_flag::enclosing) != 0)
      return;
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
      case SiteKind::segment:
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

  // The header and blocks of a detailed record into `detail_`, without the padding: interned texts
  // and Python stacks become indices into the strings, inputs a reference to the first block that
  // said the same.
  void read_detail(const uint64_t* words) {
    const uint64_t header = load_relaxed(words++);
    const uint64_t* const end = words + static_cast<uint32_t>(header);
    detail_.assign(1, 0);
    while (words < end) {
      const uint64_t block = load_relaxed(words++);
      const size_t size = block >> 16 & 0xFFFF;
      const auto type = static_cast<DetailType>(block & 0xFFFF);
      if (type == DetailType{} || size > static_cast<size_t>(end - words)) break;  // padding
      if (type == DetailType::shapes) {
        detail_.push_back(shared_block_word(share_block(block, words, size)));
      } else {
        detail_.push_back(block);
        for (size_t i = 0; i < size; ++i) detail_.push_back(load_relaxed(&words[i]));
        if (size != 0) {
          uint64_t& first = detail_[detail_.size() - size];
          if (type == DetailType::python_stack)
            first = rows_.table.stack_index(first);
          else if (type == DetailType::json || type == DetailType::modules ||
                   type == DetailType::overload)
            first = rows_.table.string_index(
                reinterpret_cast<const char*>(static_cast<uintptr_t>(first)));
        }
      }
      words += size;
    }
    detail_[0] = (header & ~uint64_t{0xFFFFFFFF}) | (detail_.size() - 1);
  }

  // The index in the payload words of a block that says the same, which is put there when it is the
  // first.
  uint32_t share_block(uint64_t block, const uint64_t* words, size_t size) {
    Column<uint64_t>& pool = rows_.payload_words;
    const size_t at = pool.size();
    pool.resize(at + 1 + size);
    pool[at] = block;
    for (size_t i = 0; i < size; ++i) pool[at + 1 + i] = load_relaxed(&words[i]);
    const uint32_t first =
        blocks_.first_of(pool.data(), static_cast<uint32_t>(at), static_cast<uint32_t>(1 + size));
    if (first != at) pool.resize(at);
    return first;
  }

  DrainedRows rows_;
  KnownBlocks blocks_;            // of inputs, in rows_.payload_words
  std::vector<uint64_t> detail_;  // of the record being read
  std::unordered_map<uint32_t, size_t> track_index_;
  uint64_t unload_epoch_ = 0;
  RecordFilter filter_{};
  SegmentWalk segments_{0, false};
  uint32_t track_id_ = 0;   // being read
  size_t units_ahead_ = 0;  // of this pass, until room for their words was made
  bool include_open_;
  uint32_t own_track_;
};

FASTPROF_NAMESPACE_END
