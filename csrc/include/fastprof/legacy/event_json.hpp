// SPDX-License-Identifier: Apache-2.0
// Two JSON formats of events: all fields of all records, and a trace of finished ranges for
// viewers.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/legacy/device_times.hpp"
#include "fastprof/legacy/legacy_event.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kEventJsonVersion = 1;

namespace legacy_detail {

template <class Int>
inline void append_json_field(std::string& out, const char* key, Int value) {
  out.append(key);
  append_json_int(out, value);
}

inline void append_event_json(std::string& out, const LegacyEvent& event, int64_t device_us) {
  out.append("{\"kind\": \"").append(legacy_event_kind_name(event.kind)).append("\", \"name\": ");
  append_json_string(out, event.name);
  append_json_field(out, ", \"thread_id\": ", event.thread_id);
  append_json_field(out, ", \"handle\": ", event.handle);
  append_json_field(out, ", \"node_id\": ", event.node_id);
  append_json_field(out, ", \"cpu_ns\": ", event.cpu_ns);
  append_json_field(out, ", \"cpu_memory_bytes\": ", event.cpu_memory_bytes);
  append_json_field(out, ", \"device_memory_bytes\": ", event.device_memory_bytes);
  out.append(", \"device_recorded\": ").append(event.has_device_event() ? "true" : "false");
  append_json_field(out, ", \"device_index\": ", event.device_index);
  append_json_field(out, ", \"device_us\": ", device_us);
  append_json_field(out, ", \"sequence_nr\": ", event.sequence_nr);
  append_json_field(out, ", \"forward_thread_id\": ", event.forward_thread_id);
  append_json_field(out, ", \"scope\": ", static_cast<uint32_t>(event.scope));
  append_json_field(out, ", \"flops\": ", event.flops);
  out.append(", \"is_async\": ").append(event.is_async ? "true" : "false");
  out.append(", \"is_remote\": ").append(event.is_remote ? "true" : "false");
  out.append(", \"shapes\": [");
  for (size_t i = 0; i < event.shapes.size(); ++i) {
    out.append(i == 0 ? "[" : ", [");
    for (size_t d = 0; d < event.shapes[i].size(); ++d) {
      if (d != 0) out.append(", ");
      append_json_int(out, event.shapes[i][d]);
    }
    out.push_back(']');
  }
  out.append("], \"stack\": [");
  for (size_t i = 0; i < event.stack.size(); ++i) {
    if (i != 0) out.append(", ");
    append_json_string(out, event.stack[i]);
  }
  out.append("]}");
}

struct RangeKeyHash {
  size_t operator()(const std::pair<uint64_t, int64_t>& key) const noexcept {
    return static_cast<size_t>((key.first ^ (static_cast<uint64_t>(key.second) << 32)) *
                               0x9E3779B97F4A7C15u);
  }
};

// Appends the trace to `out`. Returns null, or the reason it cannot be written.
inline const char* append_trace_json(std::string& out, const LegacyEventLists& lists) {
  const LegacyEvent* start = nullptr;
  for (const LegacyEventList& list : lists) {
    for (const LegacyEvent& event : list) {
      if (event.name != kStartProfileMark || event.kind != LegacyEventKind::Mark) continue;
      start = &event;
      break;
    }
    if (start != nullptr) break;
  }
  if (start == nullptr)
    return "Could not find the __start_profile mark; pass the lists as disable_profiler returned "
           "them";
  std::unordered_map<std::pair<uint64_t, int64_t>, const LegacyEvent*, RangeKeyHash> open;
  bool first = true;
  out.append("[\n");
  for (const LegacyEventList& list : lists) {
    for (const LegacyEvent& event : list) {
      const auto key = std::make_pair(event.handle, event.node_id);
      if (event.kind == LegacyEventKind::PushRange) open[key] = &event;
      if (event.kind != LegacyEventKind::PopRange) continue;
      const auto push = open.find(key);
      if (push == open.end())
        return "Unmatched pop event: a range was begun before the profiler was enabled, or its "
               "list is missing";
      out.append(first ? "{\"name\": " : ",\n{\"name\": ");
      first = false;
      append_json_string(out, push->second->name);
      out.append(", \"ph\": \"X\", \"ts\": ");
      append_json_double(out, start->cpu_elapsed_us(*push->second));
      out.append(", \"dur\": ");
      append_json_double(out, push->second->cpu_elapsed_us(event));
      append_json_field(out, ", \"tid\": ", push->second->thread_id);
      out.append(", \"pid\": \"CPU Functions\", \"args\": {}}");
      open.erase(push);
    }
  }
  out.append(first ? "]\n" : "\n]\n");
  return nullptr;
}

}  // namespace legacy_detail

// Returns {"version": 1, "lists": [[record, ...], ...]} with all fields of each record; valid JSON
// for any names. device_us of a local device event counts from the first one of its device, which
// requires waiting for the device. Any thread.
inline std::string event_lists_json(const LegacyEventLists& lists) {
  std::string out = "{\"version\": " + std::to_string(kEventJsonVersion) + ", \"lists\": [";
  DeviceTimes device_times;
  for (size_t l = 0; l < lists.size(); ++l) {
    out.append(l == 0 ? "[" : ",\n[");
    for (size_t e = 0; e < lists[l].size(); ++e) {
      if (e != 0) out.append(",\n");
      const LegacyEvent& event = lists[l][e];
      legacy_detail::append_event_json(out, event, device_times.device_us(event));
    }
    out.push_back(']');
  }
  out.append("]}\n");
  return out;
}

FASTPROF_NAMESPACE_END
