// SPDX-License-Identifier: Apache-2.0
// ChromeMetadata: what surrounds the events of a Chrome trace. The top-level members, the metadata
// events that name processes and lanes, and Kineto's marks of the recorded window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/json_check.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/base/stable_order.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/chrome_trace_options.hpp"
#include "fastprof/export/decimal.hpp"
#include "fastprof/export/trace_names.hpp"
#include "fastprof/export/track_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// Of one file. Call the functions in this order; the events come between the last two.
class ChromeMetadata {
 public:
  // base_ns: origin of all "ts", in Unix nanoseconds.
  ChromeMetadata(const Capture& capture, const ChromeTraceOptions& options,
                 const TrackLayout& layout, ByteBuffer& out, int64_t base_ns)
      : capture_(capture), options_(options), layout_(layout), out_(out), base_ns_(base_ns) {}

  // Writes the top-level members up to the "[" of "traceEvents".
  void write_header() {
    std::string text = "{\n\"schemaVersion\": 1,\n";
    const bool has_devices =
        std::any_of(options_.metadata.begin(), options_.metadata.end(),
                    [](const auto& member) { return member.first == "deviceProperties"; });
    if (!has_devices) text += "\"deviceProperties\": [],\n";
    // Duplicate members are avoided, as in args: names that differ may be equal once converted to
    // UTF-8.
    std::vector<std::string> keys = {"\"schemaVersion\"",   "\"fastprof\"",
                                     "\"displayTimeUnit\"", "\"baseTimeNanoseconds\"",
                                     "\"traceEvents\"",     "\"traceName\""};
    if (!has_devices) keys.emplace_back("\"deviceProperties\"");
    for (auto [name, value] : options_.metadata) {
      std::string key;
      for (;; name += '_') {
        key.clear();
        append_json_string(key, name);
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) break;
      }
      keys.push_back(key);
      text += key + ": ";
      if (is_json_value(value)) {
        text += value;
      } else {
        append_json_string(text, value);
      }
      text += ",\n";
    }
    text += "\"fastprof\": {\"version\": \"" FASTPROF_VERSION_STRING "\", \"session_start_ns\": ";
    append_json_int(text, capture_.t0_ns);
    text += ", \"session_stop_ns\": ";
    append_json_int(text, capture_.t1_ns);
    text += ", \"clock_error_ns\": ";
    append_json_int(text, capture_.clock_error_ns);
    text += capture_.exact_stop ? ", \"exact_stop\": true" : ", \"exact_stop\": false";
    text += ", \"clamped\": ";
    append_json_int(text, capture_.clamped);
    text += ", \"unfinished\": ";
    append_json_int(text, capture_.open_ranges());
    text += ", \"dropped\": {\"total\": ";
    append_json_int(text, capture_.dropped_total());
    for_each_drop_cause(capture_.dropped, [&](DropCause cause, uint64_t count) {
      text += std::string(", \"") + drop_cause_name(cause) + "\": ";
      append_json_int(text, count);
    });
    text += "}},\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ";
    append_json_int(text, base_ns_);
    text += ",\n\"traceEvents\": [";
    out_.append(text);
  }

  // Writes names, labels and sort indices of processes and lanes.
  void write_names() {
    const auto quoted = [](std::string_view text) {
      std::string out;
      append_json_string(out, text);
      return out;
    };
    for (const TrackInfo* track : devices_of(capture_)) {  // as Kineto names and sorts them
      const int64_t device = track->pid;
      // By a name of its own, or by that of the process that used the device.
      std::string name = capture_.name_of_process(device);
      if (name.empty()) name = capture_.name_of_process(process_of_device(device, capture_.pid));
      metadata_event("process_name", device, 0, "name", quoted(name));
      metadata_event("process_labels", device, 0, "labels", quoted(device_name(*track)));
      metadata_event("process_sort_index", device, 0, "sort_index",
                     std::to_string(kFirstDeviceSortIndex + device));
    }
    for (const int64_t pid : processes_of(capture_)) {
      const std::string name = capture_.name_of_process(pid);
      metadata_event("process_name", pid, 0, "name",
                     quoted(name.empty() ? "process " + std::to_string(pid) : name));
      metadata_event("process_labels", pid, 0, "labels", "\"CPU\"");
      metadata_event("process_sort_index", pid, 0, "sort_index", std::to_string(pid));
    }
    // The additional lanes of a thread or task follow it, as tasks follow their thread.
    const std::vector<TraceLane>& lanes = layout_.lanes();
    const std::vector<uint32_t> order = stable_order(
        lanes.size(), [&lanes](uint32_t a, uint32_t b) { return lanes[a].track < lanes[b].track; });
    for (size_t i = 0; i < order.size(); ++i) {
      const TraceLane& lane = lanes[order[i]];
      const int64_t pid = capture_.tracks[lane.track].pid;
      std::string name = quoted(lane.name);
      if (lane.use == TraceLane::Use::task)  // for our own reader
        name += ",\"task_of\":" + std::to_string(lanes[lane.thread_lane].tid);
      metadata_event("thread_name", pid, lane.tid, "name", name);
      metadata_event("thread_sort_index", pid, lane.tid, "sort_index", std::to_string(i));
    }
  }

  // Writes the last four events of Kineto's traces. Readers add "ts" and "dur" as doubles, which
  // may round up by 2 ns; the span ends 3 ns early to stay inside the window.
  void write_window_marks() {
    const auto time = [](int64_t ns) {
      char text[64];
      char* const end = put_microseconds(text, ns);
      return std::string(text, end);
    };
    const auto place = [](int64_t tid) {
      return ",\"pid\":" + std::to_string(kMarksPid) + ",\"tid\":" + std::to_string(tid);
    };
    const int64_t duration_ns = std::max<int64_t>(capture_.t1_ns - capture_.t0_ns - 3, 0);
    uint64_t ranges = 0;
    for (size_t row = 0; row < capture_.size(); ++row) ranges += is_any_range(capture_.kind[row]);
    const std::string start = ",\"ts\":" + time(capture_.t0_ns - base_ns_);
    const std::string stop = ",\"ts\":" + time(capture_.t1_ns - base_ns_);
    metadata_event("process_name", kMarksPid, 0, "name", "\"Spans\"");
    metadata_event("thread_name", kMarksPid, kSpanTid, "name", "\"PyTorch Profiler\"");
    metadata_event("thread_name", kMarksPid, kMarksTid, "name", "\"Trace PyTorch Profiler\"");
    out_.append(",\n{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\"" +
                place(kSpanTid) + start + ",\"dur\":" + time(duration_ns) +
                ",\"args\":{\"Op count\":" + std::to_string(ranges) + "}}");
    metadata_event("process_sort_index", kMarksPid, 0, "sort_index", std::to_string(kMarksPid));
    out_.append(",\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Iteration Start: PyTorch Profiler\"" +
                place(kMarksTid) + start + "}");
    out_.append(",\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\"" + place(kMarksTid) +
                stop + "}");
  }

  // Closes "traceEvents" and writes the last member.
  void write_end() {
    std::string text = "\n],\n\"traceName\": ";
    append_json_string(text, options_.trace_name);
    out_.append(text + "\n}\n");
  }

 private:
  // Process of the window marks: not a valid Linux pid; equals Kineto's sort index of "Spans".
  static constexpr int64_t kMarksPid = 0x20000000;
  static constexpr int64_t kFirstDeviceSortIndex = 5000000;
  static constexpr int64_t kSpanTid = kMarksPid + 1, kMarksTid = kMarksPid + 2;

  // `{"ph":"M","name":NAME,"pid":P,"tid":T,"args":{KEY:` VALUE `}}`
  void metadata_event(const char* name, int64_t pid, int64_t tid, const char* key,
                      const std::string& value_json) {
    std::string text = first_event_ ? "\n" : ",\n";
    first_event_ = false;
    text += std::string("{\"ph\":\"M\",\"name\":\"") + name + "\",\"pid\":" + std::to_string(pid) +
            ",\"tid\":" + std::to_string(tid) + ",\"args\":{\"" + key + "\":" + value_json + "}}";
    out_.append(text);
  }

  const Capture& capture_;
  const ChromeTraceOptions& options_;
  const TrackLayout& layout_;
  ByteBuffer& out_;
  const int64_t base_ns_;
  bool first_event_ = true;
};

FASTPROF_NAMESPACE_END
