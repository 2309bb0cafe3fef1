// SPDX-License-Identifier: Apache-2.0
// Joining appended ends to the rows that they end.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/stable_order.hpp"
#include "fastprof/session/drain.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace assembling {

// Sorts a track's rows by begin; equal ones keep their order.
inline void sort_by_begin(TrackRows& rows) {
  if (std::is_sorted(rows.begin.begin(), rows.begin.end())) return;
  const std::vector<uint32_t> order = stable_order(
      rows.size(), [&rows](uint32_t a, uint32_t b) { return rows.begin[a] < rows.begin[b]; });
  rows.each_column([&order](auto& column) {
    auto sorted = column;
    for (size_t i = 0; i < order.size(); ++i) sorted[i] = column[order[i]];
    column.swap(sorted);
  });
}

// Rows of one track that ended on another thread: (row of the track, id of the ending track).
using CrossThreadEnds = std::vector<std::pair<uint32_t, uint32_t>>;

// The row that begins at this stamp, or -1. Rows must be sorted.
inline int64_t find_row(const TrackRows& rows, uint64_t begin) noexcept {
  const auto stamp = static_cast<int64_t>(begin);
  const auto found = std::lower_bound(rows.begin.begin(), rows.begin.end(), stamp);
  return found != rows.begin.end() && *found == stamp ? found - rows.begin.begin() : -1;
}

// Removes rows that were read as open at the session's start but, by an appended end, ended before
// it.
inline void drop_ended_before(DrainedRows& drained, const Snapshot& snapshot) {
  for (const EndRecord& end : drained.ends) {
    if (end.begin >= snapshot.t0 || end.end > snapshot.t0) continue;
    for (TrackRows& rows : drained.tracks) {
      const int64_t row = rows.info.id == end.origin_track ? find_row(rows, end.begin) : -1;
      if (row >= 0) rows.each_column([row](auto& column) { column.erase(column.begin() + row); });
    }
  }
}

// Adds a row for each end without a begin record: its chunk was recycled, there was no room for it,
// or its site is end_only. Missing begins were counted as dropped, so `dropped` is decremented:
// recorded + dropped stays the number of events produced. An end_only site had no begin to drop;
// its row gets the flag `enclosing`. A thread-local session adds none, because it cannot be
// determined which session such an end belongs to. Rows must be sorted, and remain so.
inline void add_lone_ends(DrainedRows& drained, const Snapshot& snapshot, uint64_t& dropped) {
  if (snapshot.local || drained.ends.empty()) return;
  std::unordered_map<uint32_t, size_t> index;
  for (size_t i = 0; i < drained.tracks.size(); ++i) index.emplace(drained.tracks[i].info.id, i);
  std::vector<const EndRecord*> lone;
  for (const EndRecord& end : drained.ends) {
    if (end.begin < snapshot.t0 || end.begin >= snapshot.t1) continue;
    const auto at = index.find(end.origin_track);
    if (at == index.end() || find_row(drained.tracks[at->second], end.begin) < 0)
      lone.push_back(&end);
  }
  const auto before = [](const EndRecord* a, const EndRecord* b) {
    return a->origin_track != b->origin_track ? a->origin_track < b->origin_track
                                              : a->begin < b->begin;
  };
  std::sort(lone.begin(), lone.end(), before);
  for (size_t i = 0; i < lone.size(); ++i) {
    const EndRecord& end = *lone[i];
    if (i > 0 && !before(lone[i - 1], lone[i])) continue;  // a second end of the same range
    const auto [at, fresh] = index.try_emplace(end.origin_track, drained.tracks.size());
    if (fresh) {
      drained.tracks.emplace_back();
      TrackInfo& info = drained.tracks.back().info;
      info.id = end.origin_track;
      info.pid = static_cast<int64_t>(::getpid());
      info.name = "thread " + std::to_string(end.origin_track);
      info.alive = false;
    }
    drained.tracks[at->second].add(end.begin, 0, end.site, drained.table.sites[end.site].kind,
                                   kNoPayload, end.end_only ? event_flag::enclosing : uint8_t{0});
    if (dropped > 0 && !end.end_only) --dropped;
  }
  if (!lone.empty())
    for (TrackRows& rows : drained.tracks) sort_by_begin(rows);
}

// Stores appended ends in their rows, found by (origin track, begin): unique, because a thread's
// stamps increase strictly. Returns the ends by other threads, per track. Tracks must be in their
// final order.
inline std::vector<CrossThreadEnds> join_ends(DrainedRows& drained, const Snapshot& snapshot) {
  std::vector<CrossThreadEnds> crossed(drained.tracks.size());
  std::unordered_map<uint32_t, size_t> index;
  for (size_t i = 0; i < drained.tracks.size(); ++i) index.emplace(drained.tracks[i].info.id, i);
  for (const EndRecord& end : drained.ends) {
    const auto at = index.find(end.origin_track);
    const int64_t row = at == index.end() ? -1 : find_row(drained.tracks[at->second], end.begin);
    if (row < 0) continue;
    TrackRows& rows = drained.tracks[at->second];
    const auto r = static_cast<size_t>(row);
    // A smaller end is possible: stamps of two threads differ by up to 0.25 us.
    rows.end[r] = static_cast<int64_t>(end.end < end.begin ? end.begin : end.end);
    if (end.ending_track == end.origin_track || end.end > snapshot.t1 ||
        (rows.flags[r] & event_flag::cross_thread_end) != 0)
      continue;
    rows.flags[r] |= event_flag::cross_thread_end;
    crossed[at->second].emplace_back(static_cast<uint32_t>(r), end.ending_track);
  }
  for (CrossThreadEnds& rows : crossed) std::sort(rows.begin(), rows.end());
  return crossed;
}

}  // namespace assembling

FASTPROF_NAMESPACE_END
