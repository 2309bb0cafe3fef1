// SPDX-License-Identifier: Apache-2.0
// Rows of the ranges and instants that a program has reported by NVTX, if NVTX's tool is CUPTI
// instead of fastprof's injection library. CUPTI reports the two ends of a range separately, and
// not whether it was pushed or started: a range that overlaps another of its thread without nesting
// becomes async.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "backends/cuda/record_reader.hpp"
#include "core/emission_times.hpp"
#include "fastprof/base/json_escape.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

void RecordReader::keep_marker(const MarkerRecord& record) {
  if (record.timestamp == 0) {
    ++unplaced_;
    return;
  }
  constexpr uint32_t known = marker_flag::instant | marker_flag::start | marker_flag::end;
  if ((record.flags & known) == 0) return;  // an event of a lock (nvtxDomainSyncUser...)
  Marker marker;
  marker.timestamp = record.timestamp;
  marker.flags = record.flags;
  marker.id = record.id;
  marker.thread = record.object_kind == kObjectThread ? record.object[1] : 0;
  if (record.name != nullptr) marker.name = record.name;
  if (record.domain != nullptr) marker.domain = record.domain;
  markers_.push_back(std::move(marker));
}

// The attributes as JSON, with the names that the injection library gives them; kNoPayload if there
// are none.
uint32_t RecordReader::text_of(const Marker& marker) {
  std::string text;
  const auto member = [&text](const char* name) -> std::string& {
    text += text.empty() ? "{\"" : ",\"";
    return text.append(name).append("\":");
  };
  if (!marker.domain.empty()) append_json_string(member("domain"), marker.domain);
  const auto at = marker_data_.find(marker.id);
  if (at != marker_data_.end()) {
    const MarkerData& data = at->second;
    char number[32];
    if (data.category != 0) member("category") += "\"" + std::to_string(data.category) + "\"";
    if ((data.flags & marker_flag::has_color) != 0) {
      std::snprintf(number, sizeof number, "\"0x%" PRIx32 "\"", data.color);
      member("color") += number;
    }
    // Without a payload, CUPTI says that it is the integer 0.
    if (data.payload_kind == marker_value::float64) {
      double value;
      std::memcpy(&value, &data.payload, sizeof value);
      append_json_double(member("payload"), value);
    } else if (data.payload_kind == marker_value::int64 && data.payload != 0) {
      member("payload") += std::to_string(static_cast<int64_t>(data.payload));
    } else if (data.payload_kind == marker_value::uint64 && data.payload != 0) {
      member("payload") += std::to_string(data.payload);
    }
  }
  return text.empty() ? kNoPayload : text_index(text + "}");
}

void RecordReader::add_range(const Marker& begin, uint64_t end, bool overlaps) {
  const uint32_t site =
      site_of(overlaps ? Shape::async_range : Shape::range, "user_annotation", begin.name);
  add(begin.timestamp, end, 0, site, place_of_thread(begin.thread), text_of(begin));
}

// Joins ends with begins. Ranges that are still open stay in markers_, unless the collection has
// ended.
void RecordReader::add_markers(uint64_t until) {
  // Markers of one time are already in order, because they come from one thread and one buffer.
  std::stable_sort(markers_.begin(), markers_.end(),
                   [](const Marker& a, const Marker& b) { return a.timestamp < b.timestamp; });
  const auto& emission = range_tools::EmissionTimes::of_process();
  std::vector<Marker> open;
  std::unordered_map<uint32_t, std::vector<uint32_t>> stacks;  // ids of open ranges, by thread
  const auto is_innermost = [&stacks](const Marker& begin, uint32_t thread) {
    std::vector<uint32_t>& stack = stacks[begin.thread];
    const bool innermost = !stack.empty() && stack.back() == begin.id && thread == begin.thread;
    stack.erase(std::remove(stack.begin(), stack.end(), begin.id), stack.end());
    return innermost;
  };
  for (Marker& marker : markers_) {
    if ((marker.flags & marker_flag::end) == 0 &&
        emission.contains(clock_.ticks_of(marker.timestamp))) {
      ++emitted_markers_;
    } else if ((marker.flags & marker_flag::instant) != 0) {
      add_range(marker, marker.timestamp, false);
    } else if ((marker.flags & marker_flag::start) != 0) {
      stacks[marker.thread].push_back(marker.id);
      open.push_back(std::move(marker));
    } else {
      // The begin is missing if it precedes the collection, or was left out.
      const auto begin = std::find_if(open.rbegin(), open.rend(), [&marker](const Marker& each) {
        return each.id == marker.id;
      });
      if (begin == open.rend()) continue;
      add_range(*begin, marker.timestamp, !is_innermost(*begin, marker.thread));
      marker_data_.erase(marker.id);
      open.erase(std::next(begin).base());
    }
  }
  if (until != 0) {
    for (const Marker& begin : open) add_range(begin, std::max(until, begin.timestamp), false);
    open.clear();
  }
  markers_ = std::move(open);
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
