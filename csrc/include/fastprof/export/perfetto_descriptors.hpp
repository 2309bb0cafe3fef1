// SPDX-License-Identifier: Apache-2.0
// PerfettoDescriptors: the packets of a Perfetto trace that events refer to. Clocks, tracks and
// interned names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/drop_cause.hpp"
#include "fastprof/base/json_check.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/export/perfetto_args.hpp"
#include "fastprof/export/perfetto_fields.hpp"
#include "fastprof/export/perfetto_ids.hpp"
#include "fastprof/export/perfetto_packets.hpp"
#include "fastprof/export/perfetto_sites.hpp"
#include "fastprof/export/protobuf.hpp"
#include "fastprof/export/trace_names.hpp"
#include "fastprof/export/track_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// Of one file. The capture must be validated.
class PerfettoDescriptors {
 public:
  PerfettoDescriptors(const Capture& capture, const TrackLayout& layout, const PerfettoIds& ids,
                      const PerfettoSites& sites, PerfettoPackets& packets)
      : capture_(capture), layout_(layout), ids_(ids), sites_(sites), packets_(packets) {}

  // The packet sequence of a lane; sequence 1 has what belongs to no lane.
  static constexpr uint64_t sequence_of_lane(uint32_t lane) noexcept { return uint64_t{2} + lane; }

  using Metadata = std::vector<std::pair<std::string, std::string>>;  // name and JSON text

  // Writes the trace clock, the processes, the counter tracks and an event with the session's
  // facts.
  void write_processes(const Metadata& metadata) {
    using namespace perfetto;
    packets_.write(
        ProtoMessage()
            .number(trace_packet::trusted_packet_sequence_id, kProcessSequence)
            .number(trace_packet::sequence_flags, trace_packet::incremental_state_cleared)
            .message(trace_packet::clock_snapshot,
                     ProtoMessage()
                         .message(clock_snapshot::clocks,
                                  clock_reading(clock_snapshot::realtime, capture_.t0_ns))
                         .number(clock_snapshot::primary_trace_clock, clock_snapshot::realtime)));
    for (const int64_t pid : processes_of(capture_)) {
      ProtoMessage process;
      process.number(process_descriptor::pid, static_cast<uint64_t>(pid));
      const std::string name = capture_.name_of_process(pid);
      if (pid == capture_.pid || !name.empty())
        process.text(process_descriptor::process_name, name);
      write_descriptor(ProtoMessage()
                           .number(track_descriptor::uuid, ids_.process(pid))
                           .message(track_descriptor::process, process),
                       kProcessSequence);
    }
    for (const TrackInfo* device : devices_of(capture_))
      write_descriptor(ProtoMessage()
                           .number(track_descriptor::uuid, ids_.device(device->pid))
                           .number(track_descriptor::parent_uuid,
                                   ids_.process(process_of_device(device->pid, capture_.pid)))
                           .text(track_descriptor::name, device_name(*device)),
                       kProcessSequence);
    const std::vector<PerfettoSites::Counter>& counters = sites_.counters();
    for (size_t i = 0; i < counters.size(); ++i) {
      write_descriptor(ProtoMessage()
                           .number(track_descriptor::uuid, ids_.counter(i))
                           .number(track_descriptor::parent_uuid, ids_.process(counters[i].pid))
                           .text(track_descriptor::name, counters[i].name)
                           .message(track_descriptor::counter, ProtoMessage()),
                       kProcessSequence);
    }
    write_session(metadata);
  }

  // Writes the packet that ends a trace, so that readers recognise one that was cut between two
  // packets. (Perfetto's tracing service writes the same event when a trace ends.)
  void write_end() {
    using namespace perfetto;
    packets_.write(process_packet(capture_.t1_ns)
                       .message(trace_packet::service_event,
                                ProtoMessage().number(tracing_service_event::tracing_disabled, 1)));
  }

  // Writes the track descriptor of a lane; if it has rows, also its interned names and its clock,
  // which starts at `start_ns`.
  void write_lane(uint32_t lane, const uint32_t* rows, size_t count, int64_t start_ns,
                  const PerfettoArgs& args) {
    using namespace perfetto;
    const TraceLane& info = layout_.lanes()[lane];
    const int64_t pid = capture_.tracks[info.track].pid;
    ProtoMessage track;
    track.number(track_descriptor::uuid, ids_.lane(lane));
    if (info.use == TraceLane::Use::thread) {
      const TrackInfo& place = capture_.tracks[info.track];
      track.number(track_descriptor::parent_uuid,
                   place.is_device() ? ids_.device(place.pid) : ids_.process(pid));
      // Perfetto takes 0 for the idle thread of all processes.
      if (info.real_tid && info.tid != 0) {
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
                  info.thread_lane == lane ? ids_.process(pid) : ids_.lane(info.thread_lane))
          .text(track_descriptor::name, info.name);
    } else {
      track.number(track_descriptor::parent_uuid, ids_.lane(info.track))
          .text(track_descriptor::name, info.name);
    }
    write_descriptor(track, sequence_of_lane(lane));
    if (count == 0) return;

    ProtoMessage names;
    seen_in_.resize(capture_.sites.size(), UINT32_MAX);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t site = capture_.site[rows[i]];
      if (seen_in_[site] == lane) continue;
      seen_in_[site] = lane;
      sites_.add_names(names, site);
    }
    args.write_names(names);
    const ProtoMessage own_clock =
        clock_reading(clock_snapshot::first_of_sequence, 0).number(clock::is_incremental, 1);
    packets_.write(
        ProtoMessage()
            .number(trace_packet::trusted_packet_sequence_id, sequence_of_lane(lane))
            .number(trace_packet::sequence_flags, trace_packet::incremental_state_cleared)
            .message(trace_packet::trace_packet_defaults,
                     ProtoMessage()
                         .number(trace_packet_defaults::timestamp_clock_id,
                                 clock_snapshot::first_of_sequence)
                         .message(trace_packet_defaults::track_event_defaults,
                                  ProtoMessage().number(track_event_defaults::track_uuid,
                                                        ids_.lane(lane))))
            .message(trace_packet::interned_data, names)
            .message(trace_packet::clock_snapshot,
                     ProtoMessage()
                         .message(clock_snapshot::clocks, own_clock)
                         .message(clock_snapshot::clocks,
                                  clock_reading(clock_snapshot::realtime, start_ns))));
  }

 private:
  static constexpr uint64_t kProcessSequence = 1;

  static ProtoMessage clock_reading(uint64_t id, int64_t value) {
    using namespace perfetto;
    return ProtoMessage()
        .number(clock::clock_id, id)
        .number(clock::timestamp, static_cast<uint64_t>(value));
  }

  // A packet of what belongs to no lane.
  static ProtoMessage process_packet(int64_t time_ns) {
    using namespace perfetto;
    return ProtoMessage()
        .number(trace_packet::timestamp, static_cast<uint64_t>(time_ns))
        .number(trace_packet::timestamp_clock_id, clock_snapshot::realtime)
        .number(trace_packet::trusted_packet_sequence_id, kProcessSequence);
  }

  void write_session(const Metadata& metadata) {
    using namespace perfetto;
    ProtoMessage event;
    event.number(track_event::type, track_event::instant)
        .number(track_event::track_uuid, ids_.process(capture_.pid))
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
    note("rows", static_cast<int64_t>(capture_.size()));
    note("closing_packets", 1);  // the packet of write_end()
    note("clamped", static_cast<int64_t>(capture_.clamped));
    note("dropped", static_cast<int64_t>(capture_.dropped_total()));
    for_each_drop_cause(capture_.dropped, [&](DropCause cause, uint64_t count) {
      if (count != 0)
        note(std::string("dropped_") + drop_cause_name(cause), static_cast<int64_t>(count));
    });
    if (!metadata.empty()) {
      ProtoMessage annotation;
      annotation.text(debug_annotation::name, "session_metadata");
      for (const auto& [name, value] : metadata)
        annotation.message(debug_annotation::dict_entries,
                           ProtoMessage()
                               .text(debug_annotation::name, name)
                               .text(is_json_value(value) ? debug_annotation::legacy_json_value
                                                          : debug_annotation::string_value,
                                     value));
      event.message(track_event::debug_annotations, annotation);
    }
    packets_.write(process_packet(capture_.t0_ns).message(trace_packet::track_event, event));
  }

  void write_descriptor(const ProtoMessage& descriptor, uint64_t sequence) {
    using namespace perfetto;
    packets_.write(ProtoMessage()
                       .number(trace_packet::trusted_packet_sequence_id, sequence)
                       .message(trace_packet::track_descriptor, descriptor));
  }

  const Capture& capture_;
  const TrackLayout& layout_;
  const PerfettoIds& ids_;
  const PerfettoSites& sites_;
  PerfettoPackets& packets_;
  std::vector<uint32_t> seen_in_;  // by site: last lane that interned its names
};

FASTPROF_NAMESPACE_END
