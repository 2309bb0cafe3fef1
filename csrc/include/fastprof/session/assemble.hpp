// SPDX-License-Identifier: Apache-2.0
// assemble: builds a Capture from a drain's rows. It joins appended ends to their rows, gives tasks
// their tracks, finds parents by comparing ticks, and last converts ticks to nanoseconds.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/stable_order.hpp"
#include "fastprof/capture/annotate_device_rows.hpp"
#include "fastprof/capture/link_device_rows.hpp"
#include "fastprof/capture/nesting.hpp"
#include "fastprof/session/activity_rows.hpp"
#include "fastprof/session/collective_texts.hpp"
#include "fastprof/session/join_ends.hpp"
#include "fastprof/session/task_tracks.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace assembling {

// The system's name of the process; empty if it cannot be read.
inline std::string read_process_name() {
  char name[256] = {};
  platform::read_process_name(name, sizeof name);
  return name;
}

// Appends a column. If the destination is still empty (always so with one thread), it takes over
// the memory instead of copying.
template <class Type>
void append(Column<Type>& to, Column<Type>& from) {
  if (to.empty() && from.capacity() >= to.capacity())
    to.swap(from);
  else
    to.insert(to.end(), from.begin(), from.end());
  from = Column<Type>();
}

// Finds parents and converts stamps, for the rows from `first` on: those of one track, in begin
// order.
inline void finish_track(Capture& capture, size_t first, uint32_t track, const Snapshot& snapshot,
                         TickConverter& clock, const std::vector<SiteInfo>& sites,
                         NestingWalk<uint64_t>& walk) {
  walk.reset();
  const size_t size = capture.start_ns.size();
  const bool on_device = capture.tracks[track].is_device();
  capture.track.resize(size, track);
  capture.parent.resize(size);
  for (size_t row = first; row < size; ++row) {
    const auto begin = static_cast<uint64_t>(capture.start_ns[row]);
    auto end = static_cast<uint64_t>(capture.end_ns[row]);
    const EventKind kind = capture.kind[row];
    uint8_t flags = capture.flags[row];
    const bool is_instant = kind != EventKind::range && kind != EventKind::async_range;
    // A range that ended after the stop counts as open, so that the result does not depend on when
    // the drain runs. Work of a device is finished even so: it belongs to the call that started it.
    const bool finished = is_instant || on_device || (end != 0 && end <= snapshot.t1);
    const bool nests = kind == EventKind::range && (flags & event_flag::cross_thread_end) == 0;
    uint64_t closed = end;
    if (!finished) {
      // A range that was never left ends with the range around it. A function that began it may
      // have returned before, so calls do not end it. A task goes on after what it began in.
      const bool is_task = (sites[capture.site[row]].mask & category::task) != 0;
      closed = nests && !is_task
                   ? walk.closing_end(
                         begin,
                         [&](int32_t around) {
                           return sites[capture.site[static_cast<size_t>(around)]].category !=
                                  "python_function";
                         })
                   : kOpenEnd<uint64_t>;
      end = std::min(closed, snapshot.t1);
    }
    capture.parent[row] = on_device ? kNoParent
                          : nests   ? walk.enter(static_cast<int32_t>(row), begin, closed)
                                    : walk.at(begin);
    const int64_t start_ns = clock.to_ns(begin);
    int64_t end_ns = end == begin ? start_ns : clock.to_ns(end);
    if (finished) flags |= event_flag::finished;
    if ((flags & event_flag::call_line) != 0) {
      if (FASTPROF_UNLIKELY(capture.call_line.size() < size)) capture.call_line.resize(size, 0);
      capture.call_line[row] = static_cast<uint16_t>(capture.payload[row]);
      capture.payload[row] = kNoPayload;
      flags = static_cast<uint8_t>(flags & ~event_flag::call_line);
    }
    if (FASTPROF_UNLIKELY(clock.discontinuous(begin, end)))
      flags |= event_flag::clock_discontinuity;
    if (FASTPROF_UNLIKELY(end_ns < start_ns)) {
      end_ns = start_ns;
      flags |= event_flag::clamped;
      ++capture.clamped;
    }
    capture.start_ns[row] = start_ns;
    capture.end_ns[row] = end_ns;
    capture.flags[row] = flags;
  }
}

}  // namespace assembling

// Builds the Capture from `drained`, which is empty afterwards. activities: of devices. Any thread;
// no lock. Throws StateError beyond 2^31 events, and std::bad_alloc.
inline Capture assemble(DrainedRows&& drained, const Snapshot& snapshot,
                        const std::vector<PlacedActivities>& activities = {}) {
  using assembling::append;
  Capture capture;
  assembling::ActivityRows device_rows(drained, snapshot);
  for (const PlacedActivities& each : activities) device_rows.add(each.from, each.track_ids);
  for (TrackRows& rows : drained.tracks) assembling::sort_by_begin(rows);
  capture.dropped = snapshot.dropped;
  capture.dropped[static_cast<size_t>(DropCause::in_flight)] += drained.in_flight;
  capture.dropped[static_cast<size_t>(DropCause::bound)] += drained.refused;
  for (const PlacedActivities& each : activities)
    capture.dropped[static_cast<size_t>(DropCause::device)] += each.from.dropped;
  assembling::drop_ended_before(drained, snapshot);
  assembling::add_lone_ends(drained, snapshot,
                            capture.dropped[static_cast<size_t>(
                                snapshot.keeps ? DropCause::bound : DropCause::overwritten)]);
  std::vector<TrackRows>& tracks = drained.tracks;
  // Devices last: annotate_device_rows() inserts rows there.
  put_in_order(tracks, stable_order(tracks.size(), [&tracks](uint32_t a, uint32_t b) {
                 const TrackInfo &x = tracks[a].info, &y = tracks[b].info;
                 return x.is_device() != y.is_device() ? y.is_device() : x.id < y.id;
               }));
  std::vector<assembling::CrossThreadEnds> crossed = assembling::join_ends(drained, snapshot);
  assembling::TaskSplit(drained, crossed, snapshot).run();

  size_t total = 0;
  for (const TrackRows& rows : drained.tracks) total += rows.size();
  if (total > 0x7FFFFFFFu)
    raise<StateError>(
        "more than 2^31 events in one session: use shorter sessions or a smaller max_bytes");
  capture.track.reserve(total);
  capture.parent.reserve(total);

  TickConverter clock(snapshot.knots, snapshot.unix_offset_ns);
  capture.t0_ns = clock.to_ns(snapshot.t0);
  capture.t1_ns = clock.to_ns(snapshot.t1);
  capture.clock_error_ns = clock.error_ns();
  NestingWalk<uint64_t> walk;
  std::unordered_map<uint32_t, uint32_t> index_of_track;
  std::unordered_set<uint32_t> threads_of_tasks;
  for (const TrackRows& rows : drained.tracks)
    if (rows.info.is_task()) threads_of_tasks.insert(rows.info.id_of_thread());
  // (row of the capture, id of the ending track)
  std::vector<std::pair<uint32_t, uint32_t>> cross_thread_ends;
  for (size_t t = 0; t < drained.tracks.size(); ++t) {
    TrackRows& rows = drained.tracks[t];
    if (rows.size() == 0 && threads_of_tasks.count(rows.info.id) == 0) continue;
    const auto track = static_cast<uint32_t>(capture.tracks.size());
    const size_t first = capture.size();
    index_of_track.emplace(rows.info.id, track);
    for (const auto& [row, ending] : crossed[t])
      cross_thread_ends.emplace_back(static_cast<uint32_t>(first) + row, ending);
    capture.tracks.push_back(rows.info);
    append(capture.start_ns, rows.begin);
    append(capture.end_ns, rows.end);
    append(capture.site, rows.site);
    append(capture.payload, rows.payload);
    append(capture.kind, rows.kind);
    append(capture.flags, rows.flags);
    assembling::finish_track(capture, first, track, snapshot, clock, drained.table.sites, walk);
  }

  for (const auto& [row, ending_id] : cross_thread_ends) {
    const auto [at, fresh] =
        index_of_track.try_emplace(ending_id, static_cast<uint32_t>(capture.tracks.size()));
    if (fresh) {
      // That thread has no rows of its own in this session, and its track may be unknown.
      TrackInfo info;
      info.id = ending_id;
      info.pid = static_cast<int64_t>(::getpid());
      info.name = "thread " + std::to_string(ending_id);
      for (const TrackRows& rows : drained.tracks)
        if (rows.info.id == ending_id) info = rows.info;
      capture.tracks.push_back(info);
    }
    capture.cross_thread_end_row.push_back(row);
    capture.cross_thread_end_track.push_back(at->second);
  }

  if (!capture.call_line.empty()) capture.call_line.resize(capture.size(), 0);
  capture.payload_words = std::move(drained.payload_words);
  capture.sites = std::move(drained.table.sites);
  capture.strings = std::move(drained.table.strings);
  capture.python_stacks = std::move(drained.table.python_stacks);
  if (!activities.empty()) {
    link_device_rows(capture);
    describe_collectives(capture);
  }
  for (const PlacedActivities& each : activities)
    if (each.from.annotates) {
      annotate_device_rows(capture);
      break;
    }
  capture.exact_stop = snapshot.exact;
  capture.pid = static_cast<int64_t>(::getpid());
  capture.process_name = assembling::read_process_name();
  return capture;
}

FASTPROF_NAMESPACE_END
