// SPDX-License-Identifier: Apache-2.0
// Writes Perfetto's native trace format (protobuf): a fifth of the size of the JSON, exact
// nanoseconds; opens in ui.perfetto.dev and trace_processor.
//
// One packet sequence per lane (see track_layout.hpp). Each begins with its interned names and an
// incremental clock, whose timestamps are relative to the previous packet, so a range takes about
// 30 bytes: a begin and an end packet. Timestamps are Unix nanoseconds (REALTIME is declared the
// trace clock). Unfinished ranges have no end packet; viewers show them as unfinished.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/device_links.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "fastprof/export/perfetto_args.hpp"
#include "fastprof/export/perfetto_fields.hpp"
#include "fastprof/export/protobuf.hpp"
#include "fastprof/export/trace_output.hpp"
#include "fastprof/export/track_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// Options of write_perfetto_trace.
struct PerfettoTraceOptions {
  FrameName frame_name;    // names frames of native stacks; see capture_frame_name
  TraceProgress progress;  // called while a file is written
};

// Writes one capture in Perfetto's format. Use write_perfetto_trace; the capture must be validated.
class PerfettoTraceWriter {
 public:
  PerfettoTraceWriter(const Capture& capture, const PerfettoTraceOptions& options, ByteBuffer& out)
      : capture_(capture),
        out_(out),
        args_(capture, options.frame_name),
        layout_(capture),
        links_(capture),
        device_links_(capture) {
    // Track ids differ between processes and sessions, so that their files can be concatenated.
    uuid_base_ = (static_cast<uint64_t>(capture.pid) << 40) ^
                 static_cast<uint64_t>(capture.t0_ns) * 0x9E3779B97F4A7C15u;
  }

  void write() {
    prepare_sites();
    write_process();
    // Counting sort of the rows by lane, keeping their order.
    const std::vector<TraceLane>& lanes = layout_.lanes();
    std::vector<size_t> next(lanes.size() + 1, 0);
    for (size_t row = 0; row < capture_.size(); ++row) ++next[layout_.lane_of(row) + 1];
    for (size_t i = 0; i < lanes.size(); ++i) next[i + 1] += next[i];
    std::vector<uint32_t> rows(capture_.size());
    for (size_t row = 0; row < capture_.size(); ++row) {
      rows[next[layout_.lane_of(row)]++] = static_cast<uint32_t>(row);
    }
    size_t first = 0;
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
      write_lane(lane, rows.data() + first, next[lane] - first);
      first = next[lane];
    }
  }

 private:
  static constexpr uint64_t kProcessSequence = 1;
  static constexpr uint32_t kFirstLaneSequence = 2;

  uint64_t process_uuid(int64_t pid) const noexcept {
    return uuid_base_ + 1 + (static_cast<uint64_t>(pid - capture_.pid) << 44);
  }
  // A track that groups the queues of a device.
  uint64_t device_uuid(int64_t device) const noexcept {
    return uuid_base_ + 0x4000000000 + static_cast<uint64_t>(device);
  }
  uint64_t lane_uuid(uint32_t lane) const noexcept { return uuid_base_ + 0x10000000 + lane; }
  uint64_t counter_uuid(size_t counter) const noexcept {
    return uuid_base_ + 0x8000000000 + counter;
  }

  void write_packet(const ProtoMessage& packet) {
    char head[1 + kMaxVarintBytes];
    head[0] = perfetto::trace::packet << 3 | 2;
    out_.append(head, static_cast<size_t>(put_varint(head + 1, packet.size()) - head));
    out_.append(packet.encoded());
  }

  // Returns the pid of each counter's site. In a merged capture, a counter's site belongs to one
  // process.
  std::vector<int64_t> counter_pids() const {
    std::vector<int64_t> pids(capture_.sites.size(), capture_.pid);
    if (capture_.process_names.empty()) return pids;  // one process
    for (size_t row = 0; row < capture_.size(); ++row)
      if (capture_.kind[row] == EventKind::counter)
        pids[capture_.site[row]] = capture_.tracks[capture_.track[row]].pid;
    return pids;
  }

  // Precomputes the constant fields of each site's track events, and assigns tracks to counters.
  void prepare_sites() {
    using namespace perfetto;
    std::map<std::pair<std::string, int64_t>, size_t> counters;
    const std::vector<int64_t> pids = counter_pids();
    for (const SiteInfo& site : capture_.sites) {
      const uint64_t iid = site_fields_.size() + 1;
      uint64_t type = track_event::instant;
      if (is_any_range(site.kind)) type = track_event::slice_begin;
      if (site.kind == EventKind::counter) type = track_event::counter;
      ProtoMessage fields;
      fields.number(track_event::type, type);
      size_t counter = 0;
      if (site.kind == EventKind::counter) {
        // One track per name and process: threads that set the same counter share it.
        const int64_t pid = pids[site_fields_.size()];
        counter = counters.emplace(std::make_pair(site.name, pid), counters_.size()).first->second;
        if (counter == counters_.size()) counters_.emplace_back(site.name, pid);
        fields.number(track_event::track_uuid, counter_uuid(counter));
      } else {
        fields.number(track_event::category_iids, iid).number(track_event::name_iid, iid);
        if (!site.file.empty()) fields.number(track_event::source_location_iid, iid);
      }
      site_fields_.push_back(fields.encoded());
      // Encoded as one field of a packet, for events without annotations.
      site_events_.emplace_back(
          ProtoMessage().message(trace_packet::track_event, fields).encoded());
    }
  }

  void add_site_names(ProtoMessage& names, uint32_t site) const {
    using namespace perfetto;
    const SiteInfo& info = capture_.sites[site];
    const uint64_t iid = site + 1;
    std::string_view name = info.name;
    std::string_view category = info.category;
    if (info.kind == EventKind::memory || info.kind == EventKind::out_of_memory) {
      name = info.kind == EventKind::memory ? "[memory]" : "[OutOfMemory]";
      category = "cpu_instant_event";
    }
    names.message(interned_data::event_categories,
                  ProtoMessage().number(interned::iid, iid).text(interned::name, category));
    names.message(interned_data::event_names,
                  ProtoMessage().number(interned::iid, iid).text(interned::name, name));
    if (info.file.empty()) return;
    names.message(interned_data::source_locations,
                  ProtoMessage()
                      .number(source_location::iid, iid)
                      .text(source_location::file_name, info.file)
                      .text(source_location::function_name, info.function)
                      .number(source_location::line_number, info.line));
  }

  static ProtoMessage clock_reading(uint64_t id, int64_t value) {
    using namespace perfetto;
    return ProtoMessage()
        .number(clock::clock_id, id)
        .number(clock::timestamp, static_cast<uint64_t>(value));
  }

  // Writes the trace clock, the processes, the counter tracks and an event with the session's
  // metadata.
  void write_process() {
    using namespace perfetto;
    write_packet(
        ProtoMessage()
            .number(trace_packet::trusted_packet_sequence_id, kProcessSequence)
            .number(trace_packet::sequence_flags, trace_packet::incremental_state_cleared)
            .message(trace_packet::clock_snapshot,
                     ProtoMessage()
                         .message(clock_snapshot::clocks,
                                  clock_reading(clock_snapshot::realtime, capture_.t0_ns))
                         .number(clock_snapshot::primary_trace_clock, clock_snapshot::realtime)));
    std::vector<int64_t> pids = {capture_.pid};
    for (const TrackInfo& track : capture_.tracks) {
      if (!track.is_device() && std::find(pids.begin(), pids.end(), track.pid) == pids.end())
        pids.push_back(track.pid);
    }
    for (const int64_t pid : pids) {
      ProtoMessage process;
      process.number(process_descriptor::pid, static_cast<uint64_t>(pid));
      const std::string name = capture_.name_of_process(pid);
      if (pid == capture_.pid || !name.empty())
        process.text(process_descriptor::process_name, name);
      write_descriptor(ProtoMessage()
                           .number(track_descriptor::uuid, process_uuid(pid))
                           .message(track_descriptor::process, process),
                       kProcessSequence);
    }
    for (const TrackInfo* device : devices_of(capture_))
      write_descriptor(ProtoMessage()
                           .number(track_descriptor::uuid, device_uuid(device->pid))
                           .number(track_descriptor::parent_uuid,
                                   process_uuid(process_of_device(device->pid, capture_.pid)))
                           .text(track_descriptor::name, device_name(*device)),
                       kProcessSequence);
    for (size_t i = 0; i < counters_.size(); ++i) {
      write_descriptor(ProtoMessage()
                           .number(track_descriptor::uuid, counter_uuid(i))
                           .number(track_descriptor::parent_uuid, process_uuid(counters_[i].second))
                           .text(track_descriptor::name, counters_[i].first)
                           .message(track_descriptor::counter, ProtoMessage()),
                       kProcessSequence);
    }
    ProtoMessage event;
    event.number(track_event::type, track_event::instant)
        .number(track_event::track_uuid, process_uuid(capture_.pid))
        .text(track_event::name, "fastprof session");
    const auto note = [&event](std::string_view name, int64_t value) {
      event.message(track_event::debug_annotations,
                    ProtoMessage()
                        .text(debug_annotation::name, name)
                        .number(debug_annotation::int_value, static_cast<uint64_t>(value)));
    };
    note("session_start_ns", capture_.t0_ns);
    note("session_stop_ns", capture_.t1_ns);
    note("clock_error_ns", capture_.clock_error_ns);
    note("exact_stop", capture_.exact_stop ? 1 : 0);
    note("clamped", static_cast<int64_t>(capture_.clamped));
    note("dropped", static_cast<int64_t>(capture_.dropped_total()));
    for_each_drop_cause(capture_.dropped, [&](DropCause cause, uint64_t count) {
      if (count != 0)
        note(std::string("dropped_") + drop_cause_name(cause), static_cast<int64_t>(count));
    });
    write_packet(ProtoMessage()
                     .number(trace_packet::timestamp, static_cast<uint64_t>(capture_.t0_ns))
                     .number(trace_packet::timestamp_clock_id, clock_snapshot::realtime)
                     .number(trace_packet::trusted_packet_sequence_id, kProcessSequence)
                     .message(trace_packet::track_event, event));
  }

  void write_descriptor(const ProtoMessage& descriptor, uint64_t sequence) {
    using namespace perfetto;
    write_packet(ProtoMessage()
                     .number(trace_packet::trusted_packet_sequence_id, sequence)
                     .message(trace_packet::track_descriptor, descriptor));
  }

  // Writes the lane's track descriptor, its interned names, and its clock starting at `start_ns`.
  void write_lane_head(uint32_t lane, const uint32_t* rows, size_t count, int64_t start_ns) {
    using namespace perfetto;
    const TraceLane& info = layout_.lanes()[lane];
    const int64_t pid = capture_.tracks[info.track].pid;
    ProtoMessage track;
    track.number(track_descriptor::uuid, lane_uuid(lane));
    if (info.use == TraceLane::Use::thread) {
      const TrackInfo& place = capture_.tracks[info.track];
      track.number(track_descriptor::parent_uuid,
                   place.is_device() ? device_uuid(place.pid) : process_uuid(pid));
      if (info.real_tid) {
        track.message(track_descriptor::thread,
                      ProtoMessage()
                          .number(thread_descriptor::pid, static_cast<uint64_t>(pid))
                          .number(thread_descriptor::tid, static_cast<uint64_t>(info.tid))
                          .text(thread_descriptor::thread_name, info.name));
      } else {
        track.text(track_descriptor::name, info.name);
      }
    } else if (info.use == TraceLane::Use::task) {
      track
          .number(track_descriptor::parent_uuid,
                  info.thread_lane == lane ? process_uuid(pid) : lane_uuid(info.thread_lane))
          .text(track_descriptor::name, info.name);
    } else {
      track.number(track_descriptor::parent_uuid, lane_uuid(info.track))
          .text(track_descriptor::name, info.name);
    }
    write_descriptor(track, kFirstLaneSequence + lane);
    if (count == 0) return;

    ProtoMessage names;
    seen_in_.resize(capture_.sites.size(), UINT32_MAX);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t site = capture_.site[rows[i]];
      if (seen_in_[site] == lane) continue;
      seen_in_[site] = lane;
      add_site_names(names, site);
    }
    args_.write_names(names);
    const ProtoMessage own_clock =
        clock_reading(clock_snapshot::first_of_sequence, 0).number(clock::is_incremental, 1);
    write_packet(ProtoMessage()
                     .number(trace_packet::trusted_packet_sequence_id, kFirstLaneSequence + lane)
                     .number(trace_packet::sequence_flags, trace_packet::incremental_state_cleared)
                     .message(trace_packet::trace_packet_defaults,
                              ProtoMessage()
                                  .number(trace_packet_defaults::timestamp_clock_id,
                                          clock_snapshot::first_of_sequence)
                                  .message(trace_packet_defaults::track_event_defaults,
                                           ProtoMessage().number(track_event_defaults::track_uuid,
                                                                 lane_uuid(lane))))
                     .message(trace_packet::interned_data, names)
                     .message(trace_packet::clock_snapshot,
                              ProtoMessage()
                                  .message(clock_snapshot::clocks, own_clock)
                                  .message(clock_snapshot::clocks,
                                           clock_reading(clock_snapshot::realtime, start_ns))));
  }

  struct OpenSlice {
    int64_t end_ns;
    uint32_t row;
    bool finished;
  };

  void write_lane(uint32_t lane, const uint32_t* rows, size_t count) {
    using namespace perfetto;
    last_ns_ = count > 0 ? capture_.start_ns[rows[0]] : 0;
    write_lane_head(lane, rows, count, last_ns_);
    tail_ = ProtoMessage()
                .number(trace_packet::trusted_packet_sequence_id, kFirstLaneSequence + lane)
                .number(trace_packet::sequence_flags, trace_packet::needs_incremental_state)
                .encoded();
    tail_block_ = ByteBlock(tail_);
    end_event_ =
        ByteBlock(ProtoMessage()
                      .message(trace_packet::track_event,
                               ProtoMessage().number(track_event::type, track_event::slice_end))
                      .encoded());
    open_.clear();
    for (size_t i = 0; i < count; ++i) {
      const size_t row = rows[i];
      const int64_t start_ns = capture_.start_ns[row];
      const int32_t parent = capture_.parent[row];
      // A child stays inside its parent even if both show the same nanosecond.
      while (!open_.empty() && open_.back().end_ns <= start_ns &&
             static_cast<int32_t>(open_.back().row) != parent) {
        write_event(open_.back().end_ns, end_event_);
        open_.pop_back();
      }
      write_row(row, start_ns);
    }
    // An end packet closes the innermost open slice, so it can be omitted only if no end packet
    // follows.
    size_t unfinished = 0;
    while (unfinished < open_.size() && !open_[unfinished].finished) ++unfinished;
    for (; open_.size() > unfinished; open_.pop_back())
      write_event(open_.back().end_ns, end_event_);
  }

  void write_row(size_t row, int64_t start_ns) {
    using namespace perfetto;
    const uint32_t site = capture_.site[row];
    const EventKind kind = capture_.kind[row];
    const bool plain =
        capture_.payload[row] == kNoPayload && capture_.flags[row] == event_flag::finished;
    switch (kind) {
      case EventKind::range:
      case EventKind::async_range:
        if (FASTPROF_LIKELY(plain && kind == EventKind::range && !links_.is_engine_row(row))) {
          write_event(start_ns, site_events_[site]);
        } else {
          event_.clear();
          event_.raw(site_fields_[site]);
          args_.write_row(row, event_, links_.node_inside(row));
          add_link(row);
          add_launch(row);
          write_long_event(start_ns);
        }
        open_.push_back({std::max(start_ns, capture_.end_ns[row]), static_cast<uint32_t>(row),
                         (capture_.flags[row] & event_flag::finished) != 0});
        return;
      case EventKind::mark:
        event_.clear();
        event_.raw(site_fields_[site]);
        args_.write_row(row, event_);
        write_long_event(start_ns);
        return;
      case EventKind::memory:
      case EventKind::out_of_memory:
        event_.clear();
        event_.raw(site_fields_[site]);
        args_.write_memory(row, event_);
        write_long_event(start_ns);
        return;
      case EventKind::counter:
        if (capture_.payload[row] != kNoPayload) write_counter(row, site, start_ns);
        return;
      case EventKind::flow_begin:
      case EventKind::flow_end:
        if (capture_.payload[row] == kNoPayload) return;
        event_.clear();
        event_.raw(site_fields_[site])
            .fixed64(kind == EventKind::flow_begin ? track_event::flow_ids
                                                   : track_event::terminating_flow_ids,
                     capture_.payload_words[capture_.payload[row]]);
        write_long_event(start_ns);
        return;
      case EventKind::session_membership:  // internal to the recorder
        return;
    }
  }

  // Adds a flow arrow between a forward op and its backward function, with an id outside user ids.
  void add_link(size_t row) {
    using namespace perfetto;
    const ForwardBackwardLink link = links_.at(row);
    if (link.id == 0) return;
    event_.fixed64(link.begins ? track_event::flow_ids : track_event::terminating_flow_ids,
                   uuid_base_ + link.id);
  }

  // Adds the arrow from a call of a device's runtime to the work that it started.
  void add_launch(size_t row) {
    using namespace perfetto;
    const DeviceLink* const link = device_links_.at(row);
    const uint64_t arrow = link == nullptr ? 0 : device_links_.arrow(*link);
    if (arrow == 0) return;
    event_.fixed64(link->call < 0 ? track_event::flow_ids : track_event::terminating_flow_ids,
                   uuid_base_ + 0x100000000 + arrow);
  }

  void write_counter(size_t row, uint32_t site, int64_t start_ns) {
    using namespace perfetto;
    const std::vector<ArgType>& types = capture_.sites[site].arg_types;
    const PayloadValue value = payload_value(capture_, types.empty() ? ArgType::int64 : types[0],
                                             capture_.payload_words[capture_.payload[row]]);
    event_.clear();
    event_.raw(site_fields_[site]);
    if (value.type == ArgType::float64) {
      event_.real(track_event::double_counter_value, value.as_double());
    } else if (value.type == ArgType::uint64 && value.word > static_cast<uint64_t>(INT64_MAX)) {
      event_.real(track_event::double_counter_value, static_cast<double>(value.word));
    } else {
      event_.number(track_event::counter_value, value.word);
    }
    write_long_event(start_ns);
  }

  // Writes a packet {timestamp, `event` (an encoded field), sequence id and flags}: about 15 bytes,
  // so that its length fits in one byte.
  FASTPROF_ALWAYS_INLINE void write_event(int64_t time_ns, const ByteBlock& event) {
    char* const start = out_.room(ByteBuffer::kMinRoom);
    start[0] = perfetto::trace::packet << 3 | 2;
    start[2] = perfetto::trace_packet::timestamp << 3;
    char* at = put_varint(start + 3, take_delta(time_ns));
    at = tail_block_.copy(event.copy(at));
    start[1] = static_cast<char>(at - (start + 2));
    out_.advance(at);
  }
  // As write_event, for event_ of any length.
  void write_long_event(int64_t time_ns) {
    using namespace perfetto;
    packet_.clear();
    packet_.number(trace_packet::timestamp, take_delta(time_ns))
        .message(trace_packet::track_event, event_)
        .raw(tail_);
    write_packet(packet_);
  }
  // Returns the nanoseconds since the previous packet; >= 0 within a lane of a validated capture.
  FASTPROF_ALWAYS_INLINE uint64_t take_delta(int64_t time_ns) noexcept {
    const int64_t delta = time_ns - last_ns_;
    last_ns_ = time_ns;
    return static_cast<uint64_t>(delta);
  }

  const Capture& capture_;
  ByteBuffer& out_;
  PerfettoArgs args_;
  TrackLayout layout_;
  ForwardBackwardLinks links_;
  DeviceLinks device_links_;
  uint64_t uuid_base_ = 0;
  std::vector<std::string> site_fields_;
  std::vector<ByteBlock> site_events_;
  std::vector<std::pair<std::string, int64_t>> counters_;  // name, pid
  std::vector<uint32_t> seen_in_;  // by site: last lane that interned its names
  std::vector<OpenSlice> open_;
  std::string tail_;
  ByteBlock tail_block_;
  ByteBlock end_event_;
  ProtoMessage event_;
  ProtoMessage packet_;
  int64_t last_ns_ = 0;
};

// Writes the capture to any object with write(const char*, size). Returns the number of bytes
// written. Raises ValueError if the columns are inconsistent, IoError if the stream fails. Only
// reads the capture.
template <class Stream, class = decltype(std::declval<Stream&>().write(std::declval<const char*>(),
                                                                       std::ptrdiff_t{}))>
inline uint64_t write_perfetto_trace(const Capture& capture, Stream& stream,
                                     const PerfettoTraceOptions& options = {}) {
  return trace_output::to_stream<PerfettoTraceWriter>(capture, stream, options);
}

// Writes the capture to a file (usual suffix .pftrace), which appears under its name only when
// complete. Returns its size in bytes. Raises ValueError if the columns are inconsistent, IoError
// if the file cannot be written; an existing file at `path` is then unchanged. Any thread; only
// reads the capture.
inline uint64_t write_perfetto_trace(const Capture& capture, const std::string& path,
                                     const PerfettoTraceOptions& options = {}) {
  return trace_output::to_file<PerfettoTraceWriter>(capture, path, options);
}
inline uint64_t write_perfetto_trace(const Capture& capture, const char* path,
                                     const PerfettoTraceOptions& options = {}) {
  return write_perfetto_trace(capture, std::string(path), options);
}

FASTPROF_NAMESPACE_END
