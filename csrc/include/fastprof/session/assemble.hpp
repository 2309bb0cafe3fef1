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

struct ForeignEnd {
  uint32_t row;
  uint32_t ending_track;  // track id
};

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

// Joins ends that were appended elsewhere to their rows by (origin track, begin), which is unique because stamps of a
// thread are strict. An end whose begin slot was overwritten stands alone, as the range it is.
inline void join_ends(DrainedRows& drained, const Snapshot& snapshot, uint8_t lone_flags,
                      std::vector<std::vector<ForeignEnd>>& foreign) {
  std::unordered_map<uint32_t, size_t> index;
  for (size_t i = 0; i < drained.tracks.size(); ++i) index.emplace(drained.tracks[i].info.id, i);
  const auto row_of = [&](const EndRecord& end) -> int64_t {
    const auto at = index.find(end.origin_track);
    if (at == index.end()) return -1;
    const TrackRows& rows = drained.tracks[at->second];
    const auto found = std::lower_bound(rows.begin.begin(), rows.begin.end(), end.begin);
    return found != rows.begin.end() && *found == end.begin ? found - rows.begin.begin() : -1;
  };
  // First the ends without a row, which add rows; then all are joined.
  bool added = false;
  for (const EndRecord& end : drained.ends) {
    if (end.begin < snapshot.t0 || end.begin >= snapshot.t1 || row_of(end) >= 0) continue;
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
    rows.flags.push_back(lone_flags);
    added = true;
    // Keeps the next look-ups of this track valid; such ends are few.
    sort_by_begin(rows);
  }
  (void)added;
  foreign.resize(drained.tracks.size());
  for (const EndRecord& end : drained.ends) {
    const int64_t row = row_of(end);
    if (row < 0) continue;
    const size_t track = index[end.origin_track];
    TrackRows& rows = drained.tracks[track];
    const auto r = static_cast<size_t>(row);
    rows.end[r] = end.end < end.begin ? end.begin : end.end;  // stamps of two threads differ by up to 0.25 us
    if (end.ending_track != end.origin_track && end.end <= snapshot.t1) {
      rows.flags[r] |= event_flag::foreign_end;
      foreign[track].push_back(ForeignEnd{static_cast<uint32_t>(r), end.ending_track});
    }
  }
}

// Drops rows of a thread-local session that lie outside its segments.
inline void keep_segments(DrainedRows& drained, const Snapshot& snapshot) {
  for (TrackRows& rows : drained.tracks) {
    std::vector<std::pair<uint64_t, uint64_t>> spans;
    for (const Segment& segment : drained.segments)
      if (segment.track == rows.info.id) spans.emplace_back(segment.enter, segment.exit == 0 ? snapshot.t1 : segment.exit);
    std::sort(spans.begin(), spans.end());
    std::vector<uint32_t> kept;
    size_t at = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      while (at < spans.size() && spans[at].second <= rows.begin[i]) ++at;
      if (at < spans.size() && rows.begin[i] >= spans[at].first) kept.push_back(static_cast<uint32_t>(i));
    }
    if (kept.size() == rows.size()) continue;
    const auto keep = [&kept](auto& column) {
      for (size_t i = 0; i < kept.size(); ++i) column[i] = column[kept[i]];
      column.resize(kept.size());
    };
    keep(rows.begin);
    keep(rows.end);
    keep(rows.site);
    keep(rows.payload);
    keep(rows.kind);
    keep(rows.flags);
  }
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
  if (snapshot.local) assembling::keep_segments(drained, snapshot);
  std::vector<std::vector<assembling::ForeignEnd>> foreign;
  assembling::join_ends(drained, snapshot, 0, foreign);
  std::sort(drained.tracks.begin(), drained.tracks.end(),
            [](const TrackRows& a, const TrackRows& b) { return a.info.id < b.info.id; });

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
  for (TrackRows& rows : drained.tracks) {
    if (rows.size() == 0) continue;
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

  // Ends on other threads, by row of the capture.
  std::vector<std::pair<uint32_t, uint32_t>> ends;
  for (const EndRecord& end : drained.ends) {
    if (end.ending_track == end.origin_track || end.end > snapshot.t1) continue;
    const auto at = track_index.find(end.origin_track);
    if (at == track_index.end()) continue;
    const auto first = std::lower_bound(capture.track.begin(), capture.track.end(), at->second);
    const auto last = std::upper_bound(first, capture.track.end(), at->second);
    const int64_t begin_ns = clock.to_ns(end.begin);
    const auto lo = capture.start_ns.begin() + (first - capture.track.begin());
    const auto hi = capture.start_ns.begin() + (last - capture.track.begin());
    for (auto it = std::lower_bound(lo, hi, begin_ns); it != hi && *it == begin_ns; ++it) {
      const auto r = static_cast<uint32_t>(it - capture.start_ns.begin());
      if ((capture.flags[r] & event_flag::foreign_end) == 0) continue;
      const auto [ending, fresh] = track_index.try_emplace(end.ending_track, static_cast<uint32_t>(capture.tracks.size()));
      if (fresh) {
        TrackInfo info;
        info.id = end.ending_track;
        info.pid = static_cast<int64_t>(::getpid());
        info.name = "thread " + std::to_string(end.ending_track);
        for (const TrackRows& rows : drained.tracks)
          if (rows.info.id == end.ending_track) info = rows.info;
        capture.tracks.push_back(info);
      }
      ends.emplace_back(r, ending->second);
      break;
    }
  }
  std::sort(ends.begin(), ends.end());
  for (const auto& [r, ending] : ends) {
    capture.foreign_row.push_back(r);
    capture.foreign_end_track.push_back(ending);
  }
  capture.exact_stop = snapshot.exact;
  capture.pid = static_cast<int64_t>(::getpid());
  capture.process_name = assembling::read_process_name();
  capture.dropped = snapshot.dropped;
  capture.dropped[static_cast<size_t>(DropCause::in_flight)] += drained.in_flight;
  return capture;
}

FASTPROF_NAMESPACE_END
