// SPDX-License-Identifier: Apache-2.0
// assemble: from a drain's rows in ticks to a Capture: appended ends joined, segments applied, parents found on ticks,
// stamps converted to nanoseconds last.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/nesting.hpp"
#include "fastprof/session/drain.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace assembling {

// Applies a permutation to every column of a track.
inline void reorder(TrackRows& rows, const std::vector<uint32_t>& order) {
  const auto apply = [&order](auto& column) {
    auto copy = column;
    for (size_t i = 0; i < order.size(); ++i) copy[i] = column[order[i]];
    column.swap(copy);
  };
  apply(rows.begin);
  apply(rows.end);
  apply(rows.site);
  apply(rows.payload);
  apply(rows.kind);
  apply(rows.flags);
}

inline void sort_by_begin(TrackRows& rows) {
  if (std::is_sorted(rows.begin.begin(), rows.begin.end())) return;
  std::vector<uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&rows](uint32_t a, uint32_t b) { return rows.begin[a] < rows.begin[b]; });
  reorder(rows, order);
}

// Rows of a track that end on other threads: row of the track, id of the ending one.
using ForeignEnds = std::vector<std::pair<uint32_t, uint32_t>>;

inline int64_t find_row(const TrackRows& rows, uint64_t begin) noexcept {
  const auto found = std::lower_bound(rows.begin.begin(), rows.begin.end(), begin);
  return found != rows.begin.end() && *found == begin ? found - rows.begin.begin() : -1;
}

// Ends whose begin is gone (its chunk was recycled, or had no room) stand alone, as the events they are. Those begins were
// counted as dropped, so the count gives them back: recorded + dropped stays what was produced. A thread-local session
// cannot tell whose they were and leaves them counted. Rows must be sorted, and stay so.
inline void add_lone_ends(DrainedRows& drained, const Snapshot& snapshot, uint64_t& dropped) {
  if (snapshot.local || drained.ends.empty()) return;
  std::unordered_map<uint32_t, size_t> index;
  for (size_t i = 0; i < drained.tracks.size(); ++i) index.emplace(drained.tracks[i].info.id, i);
  std::vector<const EndRecord*> lone;
  for (const EndRecord& end : drained.ends) {
    if (end.begin < snapshot.t0 || end.begin >= snapshot.t1) continue;
    const auto at = index.find(end.origin_track);
    if (at == index.end() || find_row(drained.tracks[at->second], end.begin) < 0) lone.push_back(&end);
  }
  const auto before = [](const EndRecord* a, const EndRecord* b) {
    return a->origin_track != b->origin_track ? a->origin_track < b->origin_track : a->begin < b->begin;
  };
  std::sort(lone.begin(), lone.end(), before);
  for (size_t i = 0; i < lone.size(); ++i) {
    const EndRecord& end = *lone[i];
    if (i > 0 && !before(lone[i - 1], lone[i])) continue;  // ended twice
    const auto [at, fresh] = index.try_emplace(end.origin_track, drained.tracks.size());
    if (fresh) {
      drained.tracks.emplace_back();
      TrackInfo& info = drained.tracks.back().info;
      info.id = end.origin_track;
      info.pid = static_cast<int64_t>(::getpid());
      info.name = "thread " + std::to_string(end.origin_track);
      info.alive = false;
    }
    TrackRows& rows = drained.tracks[at->second];
    rows.begin.push_back(end.begin);
    rows.end.push_back(0);
    rows.site.push_back(end.site);
    rows.payload.push_back(kNoPayload);
    rows.kind.push_back(drained.table.sites[end.site].kind);
    rows.flags.push_back(0);
    if (dropped > 0) --dropped;
  }
  if (!lone.empty())
    for (TrackRows& rows : drained.tracks) sort_by_begin(rows);
}

// Joins ends that were appended elsewhere to their rows by (origin track, begin), which is unique because stamps of a
// thread are strict. Tracks must have their final order.
inline std::vector<ForeignEnds> join_ends(DrainedRows& drained, const Snapshot& snapshot) {
  std::vector<ForeignEnds> foreign(drained.tracks.size());
  std::unordered_map<uint32_t, size_t> index;
  for (size_t i = 0; i < drained.tracks.size(); ++i) index.emplace(drained.tracks[i].info.id, i);
  for (const EndRecord& end : drained.ends) {
    const auto at = index.find(end.origin_track);
    const int64_t row = at == index.end() ? -1 : find_row(drained.tracks[at->second], end.begin);
    if (row < 0) continue;
    TrackRows& rows = drained.tracks[at->second];
    const auto r = static_cast<size_t>(row);
    rows.end[r] = end.end < end.begin ? end.begin : end.end;  // stamps of two threads differ by up to 0.25 us
    if (end.ending_track == end.origin_track || end.end > snapshot.t1 || (rows.flags[r] & event_flag::foreign_end) != 0)
      continue;
    rows.flags[r] |= event_flag::foreign_end;
    foreign[at->second].emplace_back(static_cast<uint32_t>(r), end.ending_track);
  }
  for (ForeignEnds& rows : foreign) std::sort(rows.begin(), rows.end());
  return foreign;
}

inline std::string read_process_name() {
  char name[256] = {};
  if (std::FILE* f = std::fopen("/proc/self/comm", "re")) {
    const size_t count = std::fread(name, 1, sizeof name - 1, f);
    std::fclose(f);
    if (count > 0 && name[count - 1] == '\n') name[count - 1] = 0;
  }
  return name;
}

}  // namespace assembling

// Builds the Capture and leaves the drain empty. Any thread; no lock.
inline Capture assemble(DrainedRows&& drained, const Snapshot& snapshot) {
  Capture capture;
  for (TrackRows& rows : drained.tracks) assembling::sort_by_begin(rows);
  capture.dropped = snapshot.dropped;
  capture.dropped[static_cast<size_t>(DropCause::in_flight)] += drained.in_flight;
  assembling::add_lone_ends(drained, snapshot,
                            capture.dropped[static_cast<size_t>(snapshot.keeps ? DropCause::bound : DropCause::overwritten)]);
  std::sort(drained.tracks.begin(), drained.tracks.end(),
            [](const TrackRows& a, const TrackRows& b) { return a.info.id < b.info.id; });
  const std::vector<assembling::ForeignEnds> foreign = assembling::join_ends(drained, snapshot);

  size_t total = 0;
  for (const TrackRows& rows : drained.tracks) total += rows.size();
  if (total > 0x7FFFFFFFu) raise<StateError>("more than 2^31 events in one session: use a shorter session or a smaller max_bytes");
  capture.start_ns.resize(total);
  capture.end_ns.resize(total);
  capture.site.reserve(total);
  capture.track.resize(total);
  capture.parent.resize(total);
  capture.payload.reserve(total);
  capture.kind.reserve(total);
  capture.flags.reserve(total);

  TickConverter clock(snapshot.knots, snapshot.unix_offset_ns);
  capture.t0_ns = clock.to_ns(snapshot.t0);
  capture.t1_ns = clock.to_ns(snapshot.t1);
  capture.clock_error_ns = clock.error_ns();
  NestingWalk<uint64_t> walk;
  std::unordered_map<uint32_t, uint32_t> track_index;
  size_t row = 0;
  std::vector<std::pair<uint32_t, uint32_t>> foreign_rows;  // row of the capture, id of the ending track
  for (size_t t = 0; t < drained.tracks.size(); ++t) {
    TrackRows& rows = drained.tracks[t];
    if (rows.size() == 0) continue;
    for (const auto& [r, ending] : foreign[t]) foreign_rows.emplace_back(static_cast<uint32_t>(row) + r, ending);
    const auto track = static_cast<uint32_t>(capture.tracks.size());
    track_index.emplace(rows.info.id, track);
    capture.tracks.push_back(rows.info);
    walk.reset();
    for (size_t i = 0; i < rows.size(); ++i, ++row) {
      const uint64_t begin = rows.begin[i];
      const bool is_instant = rows.kind[i] != EventKind::range && rows.kind[i] != EventKind::async_range;
      uint64_t end = rows.end[i];
      // Whenever the drain runs, what ends after the stop is open.
      const bool finished = is_instant || (end != 0 && end <= snapshot.t1);
      if (!finished) end = snapshot.t1;
      const bool nests = rows.kind[i] == EventKind::range && (rows.flags[i] & event_flag::foreign_end) == 0;
      capture.parent[row] = nests ? walk.enter(static_cast<int32_t>(row), begin, finished ? end : kOpenEnd<uint64_t>)
                                  : walk.at(begin);
      capture.track[row] = track;
      const int64_t start_ns = clock.to_ns(begin);
      int64_t end_ns = end == begin ? start_ns : clock.to_ns(end);
      if (finished) rows.flags[i] |= event_flag::finished;
      if (FASTPROF_UNLIKELY(clock.discontinuous(begin, end))) rows.flags[i] |= event_flag::clock_discontinuity;
      if (end_ns < start_ns) {
        end_ns = start_ns;
        rows.flags[i] |= event_flag::clamped;
        ++capture.clamped;
      }
      capture.start_ns[row] = start_ns;
      capture.end_ns[row] = end_ns;
    }
    capture.site.insert(capture.site.end(), rows.site.begin(), rows.site.end());
    capture.payload.insert(capture.payload.end(), rows.payload.begin(), rows.payload.end());
    capture.kind.insert(capture.kind.end(), rows.kind.begin(), rows.kind.end());
    capture.flags.insert(capture.flags.end(), rows.flags.begin(), rows.flags.end());
    const TrackInfo info = rows.info;
    rows = TrackRows{};  // the rows are copied: give their memory back before the next track
    rows.info = info;
  }
  capture.payload_words = std::move(drained.payload_words);
  capture.sites = std::move(drained.table.sites);
  capture.strings = std::move(drained.table.strings);

  for (const auto& [r, ending_id] : foreign_rows) {
    const auto [ending, fresh] = track_index.try_emplace(ending_id, static_cast<uint32_t>(capture.tracks.size()));
    if (fresh) {
      TrackInfo info;
      info.id = ending_id;
      info.pid = static_cast<int64_t>(::getpid());
      info.name = "thread " + std::to_string(ending_id);
      for (const TrackRows& rows : drained.tracks)
        if (rows.info.id == ending_id) info = rows.info;
      capture.tracks.push_back(info);
    }
    capture.foreign_row.push_back(r);
    capture.foreign_end_track.push_back(ending->second);
  }
  capture.exact_stop = snapshot.exact;
  capture.pid = static_cast<int64_t>(::getpid());
  capture.process_name = assembling::read_process_name();
  return capture;
}

FASTPROF_NAMESPACE_END
