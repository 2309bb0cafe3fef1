// SPDX-License-Identifier: Apache-2.0
// Writes Perfetto's native trace format (protobuf): a fifth of the size of the JSON, exact
// nanoseconds; opens in ui.perfetto.dev and trace_processor.
//
// One packet sequence per lane (see track_layout.hpp). Each begins with its interned names and an
// incremental clock, whose timestamps are relative to the previous packet, so a range takes about
// 30 bytes: a begin and an end packet. Timestamps are Unix nanoseconds (REALTIME is declared the
// trace clock). Ranges that were open at the stop have no end packet; viewers show them as
// unfinished.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/device_links.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "fastprof/export/perfetto_args.hpp"
#include "fastprof/export/perfetto_descriptors.hpp"
#include "fastprof/export/perfetto_fields.hpp"
#include "fastprof/export/perfetto_ids.hpp"
#include "fastprof/export/perfetto_packets.hpp"
#include "fastprof/export/perfetto_sites.hpp"
#include "fastprof/export/protobuf.hpp"
#include "fastprof/export/trace_output.hpp"
#include "fastprof/export/track_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// Options of write_perfetto_trace.
struct PerfettoTraceOptions {
  // Further facts about the session: name and JSON text, written as an annotation
  // "session_metadata" of the event "fastprof session". Invalid JSON is written as a string.
  std::vector<std::pair<std::string, std::string>> metadata;
  FrameName frame_name;    // names frames of native stacks; see capture_frame_name
  TraceProgress progress;  // called while a file is written
};

// Writes one capture in Perfetto's format. Use write_perfetto_trace; the capture must be validated.
class PerfettoTraceWriter {
 public:
  PerfettoTraceWriter(const Capture& capture, const PerfettoTraceOptions& options, ByteBuffer& out)
      : capture_(capture),
        args_(capture, options.frame_name),
        layout_(capture),
        links_(capture),
        device_links_(capture),
        ids_(capture),
        sites_(capture, ids_),
        packets_(out),
        descriptors_(capture, layout_, ids_, sites_, packets_),
        options_(options),
        end_event_(ProtoMessage()
                       .message(perfetto::trace_packet::track_event,
                                ProtoMessage().number(perfetto::track_event::type,
                                                      perfetto::track_event::slice_end))
                       .encoded()) {}

  void write() {
    descriptors_.write_processes(options_.metadata);
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
    descriptors_.write_end();
  }

 private:
  struct OpenSlice {
    int64_t end_ns;
    uint32_t row;
    bool finished;  // or open until its process ended, before the stop
  };

  void write_lane(uint32_t lane, const uint32_t* rows, size_t count) {
    const int64_t first_ns = count > 0 ? capture_.start_ns[rows[0]] : 0;
    descriptors_.write_lane(lane, rows, count, first_ns, args_);
    packets_.begin_sequence(PerfettoDescriptors::sequence_of_lane(lane), first_ns);
    open_.clear();
    for (size_t i = 0; i < count; ++i) {
      const size_t row = rows[i];
      const int64_t start_ns = capture_.start_ns[row];
      const int32_t parent = capture_.parent[row];
      // A child stays inside its parent even if both show the same nanosecond.
      while (!open_.empty() && open_.back().end_ns <= start_ns &&
             static_cast<int32_t>(open_.back().row) != parent) {
        packets_.write_event(open_.back().end_ns, end_event_);
        open_.pop_back();
      }
      write_row(row, start_ns);
    }
    // An end packet closes the innermost open slice, so it can be omitted only if no end packet
    // follows.
    size_t unfinished = 0;
    while (unfinished < open_.size() && !open_[unfinished].finished) ++unfinished;
    for (; open_.size() > unfinished; open_.pop_back())
      packets_.write_event(open_.back().end_ns, end_event_);
  }

  void write_row(size_t row, int64_t start_ns) {
    using namespace perfetto;
    const uint32_t site = capture_.site[row];
    const EventKind kind = capture_.kind[row];
    const bool plain = capture_.payload[row] == kNoPayload &&
                       capture_.flags[row] == event_flag::finished &&
                       (capture_.call_line.empty() || capture_.call_line[row] == 0);
    switch (kind) {
      case EventKind::range:
      case EventKind::async_range:
        if (FASTPROF_LIKELY(plain && kind == EventKind::range && !links_.is_engine_row(row))) {
          packets_.write_event(start_ns, sites_.event(site));
        } else {
          event_.clear();
          event_.raw(sites_.fields(site));
          args_.write_row(row, event_, links_.node_inside(row));
          add_link(row);
          add_launch(row);
          packets_.write_long_event(start_ns, event_);
        }
        open_.push_back({std::max(start_ns, capture_.end_ns[row]), static_cast<uint32_t>(row),
                         (capture_.flags[row] & event_flag::finished) != 0 ||
                             capture_.end_ns[row] < capture_.t1_ns});
        return;
      case EventKind::mark:
        event_.clear();
        event_.raw(sites_.fields(site));
        args_.write_row(row, event_);
        packets_.write_long_event(start_ns, event_);
        return;
      case EventKind::memory:
      case EventKind::out_of_memory:
        event_.clear();
        event_.raw(sites_.fields(site));
        args_.write_memory(row, event_);
        packets_.write_long_event(start_ns, event_);
        return;
      case EventKind::counter:
        if (capture_.payload[row] != kNoPayload) write_counter(row, site, start_ns);
        return;
      case EventKind::flow_begin:
      case EventKind::flow_end:
        if (capture_.payload[row] == kNoPayload) return;
        event_.clear();
        event_.raw(sites_.fields(site))
            .fixed64(kind == EventKind::flow_begin ? track_event::flow_ids
                                                   : track_event::terminating_flow_ids,
                     capture_.payload_words[capture_.payload[row]]);
        packets_.write_long_event(start_ns, event_);
        return;
      case EventKind::session_membership:  // internal to the recorder
        return;
    }
  }

  // Adds a flow arrow between a forward op and its backward function.
  void add_link(size_t row) {
    using namespace perfetto;
    const ForwardBackwardLink link = links_.at(row);
    if (link.id == 0) return;
    event_.fixed64(link.begins ? track_event::flow_ids : track_event::terminating_flow_ids,
                   ids_.link(link.id));
  }

  // Adds the arrow from a call of a device's runtime to the work that it started.
  void add_launch(size_t row) {
    using namespace perfetto;
    const DeviceLink* const link = device_links_.at(row);
    const uint64_t arrow = link == nullptr ? 0 : device_links_.arrow(*link);
    if (arrow == 0) return;
    event_.fixed64(link->call < 0 ? track_event::flow_ids : track_event::terminating_flow_ids,
                   ids_.launch(arrow));
  }

  void write_counter(size_t row, uint32_t site, int64_t start_ns) {
    using namespace perfetto;
    const std::vector<ArgType>& types = capture_.sites[site].arg_types;
    const PayloadValue value = payload_value(capture_, types.empty() ? ArgType::int64 : types[0],
                                             capture_.payload_words[capture_.payload[row]]);
    event_.clear();
    event_.raw(sites_.fields(site));
    if (value.type == ArgType::float64) {
      event_.real(track_event::double_counter_value, value.as_double());
    } else if (value.type == ArgType::uint64 && value.word > static_cast<uint64_t>(INT64_MAX)) {
      event_.real(track_event::double_counter_value, static_cast<double>(value.word));
    } else {
      event_.number(track_event::counter_value, value.word);
    }
    packets_.write_long_event(start_ns, event_);
  }

  const Capture& capture_;
  PerfettoArgs args_;
  TrackLayout layout_;
  ForwardBackwardLinks links_;
  DeviceLinks device_links_;
  const PerfettoIds ids_;
  const PerfettoSites sites_;
  PerfettoPackets packets_;
  PerfettoDescriptors descriptors_;
  const PerfettoTraceOptions& options_;
  const ByteBlock end_event_;
  std::vector<OpenSlice> open_;
  ProtoMessage event_;
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
// complete. Returns its size in bytes. Raises ValueError if the columns are inconsistent or the
// path ends in .gz, IoError if the file cannot be written; an existing file at `path` is then
// unchanged. Any thread; only reads the capture.
inline uint64_t write_perfetto_trace(const Capture& capture, const std::string& path,
                                     const PerfettoTraceOptions& options = {}) {
  return trace_output::to_file<PerfettoTraceWriter>(capture, path, options);
}
inline uint64_t write_perfetto_trace(const Capture& capture, const char* path,
                                     const PerfettoTraceOptions& options = {}) {
  return write_perfetto_trace(capture, std::string(path), options);
}

FASTPROF_NAMESPACE_END
