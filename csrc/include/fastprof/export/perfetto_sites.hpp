// SPDX-License-Identifier: Apache-2.0
// PerfettoSites: what the track events of one site share in a Perfetto trace, encoded once, and the
// tracks of counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/perfetto_fields.hpp"
#include "fastprof/export/perfetto_ids.hpp"
#include "fastprof/export/protobuf.hpp"
#include "fastprof/export/trace_names.hpp"

FASTPROF_NAMESPACE_BEGIN

// Of one file. The capture must be validated.
class PerfettoSites {
 public:
  // A counter's track: one for each name and process.
  struct Counter {
    std::string name;
    int64_t pid;
  };

  PerfettoSites(const Capture& capture, const PerfettoIds& ids) : capture_(capture) {
    using namespace perfetto;
    std::map<std::pair<std::string, int64_t>, size_t> counters;
    const std::vector<int64_t> pids = counter_pids();
    for (const SiteInfo& site : capture_.sites) {
      const uint64_t iid = fields_.size() + 1;
      uint64_t type = track_event::instant;
      if (is_any_range(site.kind)) type = track_event::slice_begin;
      if (site.kind == EventKind::counter) type = track_event::counter;
      ProtoMessage fields;
      fields.number(track_event::type, type);
      size_t counter = 0;
      if (site.kind == EventKind::counter) {
        // One track per name and process: threads that set the same counter share it.
        const int64_t pid = pids[fields_.size()];
        counter = counters.emplace(std::make_pair(site.name, pid), counters_.size()).first->second;
        if (counter == counters_.size()) counters_.push_back({site.name, pid});
        fields.number(track_event::track_uuid, ids.counter(counter));
      } else {
        fields.number(track_event::category_iids, iid).number(track_event::name_iid, iid);
        if (!site.file.empty()) fields.number(track_event::source_location_iid, iid);
      }
      fields_.push_back(fields.encoded());
      // Encoded as one field of a packet, for events without annotations.
      events_.emplace_back(ProtoMessage().message(trace_packet::track_event, fields).encoded());
    }
  }

  // The constant fields of a site's track events, encoded.
  const std::string& fields(uint32_t site) const noexcept { return fields_[site]; }
  // The same as the field `track_event` of a packet, for events without annotations.
  const ByteBlock& event(uint32_t site) const noexcept { return events_[site]; }
  // By number, which PerfettoIds::counter() takes.
  const std::vector<Counter>& counters() const noexcept { return counters_; }

  // Appends the interned names that the site's events refer to.
  void add_names(ProtoMessage& names, uint32_t site) const {
    using namespace perfetto;
    const SiteInfo& info = capture_.sites[site];
    const uint64_t iid = site + 1;
    const ShownSite shown = shown_site(info);
    names.message(interned_data::event_categories,
                  ProtoMessage().number(interned::iid, iid).text(interned::name, shown.category));
    names.message(interned_data::event_names,
                  ProtoMessage().number(interned::iid, iid).text(interned::name, shown.name));
    if (info.file.empty()) return;
    names.message(interned_data::source_locations,
                  ProtoMessage()
                      .number(source_location::iid, iid)
                      .text(source_location::file_name, info.file)
                      .text(source_location::function_name, info.function)
                      .number(source_location::line_number, info.line));
  }

 private:
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

  const Capture& capture_;
  std::vector<std::string> fields_;
  std::vector<ByteBlock> events_;
  std::vector<Counter> counters_;
};

FASTPROF_NAMESPACE_END
