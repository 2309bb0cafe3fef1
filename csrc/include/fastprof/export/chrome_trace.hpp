// SPDX-License-Identifier: Apache-2.0
// Writes Chrome trace JSON with Kineto's schema, for Perfetto, chrome://tracing, TensorBoard, HTA,
// speedscope and similar programs.
//
// Format: "Trace Event Format" (JSON object form); top level and args as written by Kineto.
// Stricter than Kineto where readers would lose events: pid and tid are always integers and labels
// are metadata events, slices of one tid nest properly (see track_layout.hpp), and the output is
// valid JSON for any names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/stable_order.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/chrome_args.hpp"
#include "fastprof/export/decimal.hpp"
#include "fastprof/export/device_links.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "fastprof/export/trace_output.hpp"
#include "fastprof/export/track_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// Options of write_chrome_trace.
struct ChromeTraceOptions {
  // Origin of "ts", in Unix nanoseconds (baseTimeNanoseconds). kAutomaticBase: the last multiple of
  // 7889238 s (three months) before the session, as in Kineto, so that traces of several processes
  // share it and microseconds in a double stay exact to the nanosecond.
  static constexpr int64_t kAutomaticBase = INT64_MIN;
  int64_t base_time_ns = kAutomaticBase;
  // Additional top-level members: name and JSON text. Invalid JSON is written as a string; "_" is
  // appended to a name that is already used.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string trace_name;  // "traceName"; if empty, the path
  // Optional parts that Kineto writes, for programs that read its files.
  // event_ids: "External id" (row + 1), "Record function id" (0: not requested) and "Ev Idx" (row)
  // of every range; only "Ev Idx" of marks and memory records. About 65 bytes per range; speedscope
  // treats ranges with different args as different functions.
  // window_marks: the slice "PyTorch Profiler (0)" and the marks "Iteration Start: PyTorch
  // Profiler" and "Record Window End", in a separate process.
  // automatic: the part is written if the capture has ranges of category "cpu_op", or rows of a
  // device, which "External id" links to the range that launched them.
  enum class KinetoPart : uint8_t { automatic, never, always };
  KinetoPart event_ids = KinetoPart::automatic;
  KinetoPart window_marks = KinetoPart::automatic;
  FrameName frame_name;    // names frames of native stacks; see capture_frame_name
  TraceProgress progress;  // called while a file is written
};

// Writes one capture as Chrome trace JSON. Use write_chrome_trace; the capture must be validated.
class ChromeTraceWriter {
 public:
  ChromeTraceWriter(const Capture& capture, const ChromeTraceOptions& options, ByteBuffer& out)
      : capture_(capture),
        options_(options),
        out_(out),
        has_ops_(shows_ops(capture) || !capture.device_links.empty()),
        event_ids_(chosen(options.event_ids)),
        args_(capture, out, options.frame_name, event_ids_),
        layout_(capture),
        links_(capture),
        device_links_(capture) {
    constexpr int64_t three_months_ns = 7889238 * int64_t{1000000000};
    base_ns_ = options.base_time_ns != ChromeTraceOptions::kAutomaticBase
                   ? options.base_time_ns
                   : capture.t0_ns / three_months_ns * three_months_ns;
  }

  void write() {
    write_header();
    write_metadata_events();
    prepare_texts();
    for (size_t row = 0; row < capture_.size(); ++row) write_row(row);
    if (marks_window()) write_window_marks();
    out_.append("\n],\n\"traceName\": ");
    args_.write_string(options_.trace_name);
    out_.append("\n}\n");
  }

 private:
  // Process of the window marks: not a valid Linux pid; equals Kineto's sort index of "Spans".
  static constexpr int64_t kMarksPid = 0x20000000;
  static constexpr int64_t kFirstDeviceSortIndex = 5000000;
  static constexpr int64_t kSpanTid = kMarksPid + 1, kMarksTid = kMarksPid + 2;

  static bool shows_ops(const Capture& capture) {
    std::vector<bool> is_op;
    for (const SiteInfo& site : capture.sites)
      is_op.push_back(is_any_range(site.kind) && site.category == "cpu_op");
    if (std::find(is_op.begin(), is_op.end(), true) == is_op.end()) return false;
    return std::any_of(capture.site.begin(), capture.site.end(),
                       [&](uint32_t site) { return is_op[site]; });
  }
  bool chosen(ChromeTraceOptions::KinetoPart part) const noexcept {
    return part == ChromeTraceOptions::KinetoPart::always ||
           (part == ChromeTraceOptions::KinetoPart::automatic && has_ops_);
  }
  // A hand-made table has no session (t0_ns is 0).
  bool marks_window() const noexcept {
    return chosen(options_.window_marks) && capture_.t0_ns > 0 && capture_.t1_ns > capture_.t0_ns;
  }

  // Formats timestamps. Most share all but their last digits, so the text of the milliseconds is
  // cached.
  class TimeText {
   public:
    FASTPROF_ALWAYS_INLINE char* put(char* out, int64_t ns) noexcept {
      const int64_t ms = ns / 1000000;
      if (FASTPROF_UNLIKELY(ms != ms_)) {
        if (ms <= 0) return put_microseconds(out, ns);
        ms_ = ms;
        size_ = static_cast<size_t>(put_decimal(text_, static_cast<uint64_t>(ms)) - text_);
      }
      std::memcpy(out, text_, 16);
      const auto rest = static_cast<uint32_t>(ns - ms * 1000000);
      out = put_three(out + size_, rest / 1000);
      *out = '.';
      return put_three(out + 1, rest % 1000);
    }

   private:
    int64_t ms_ = INT64_MIN;  // milliseconds in text_; values <= 0 are never cached
    size_t size_ = 0;
    char text_[32] = {};
  };

  void write_header() {
    std::string text = "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [],\n";
    // Duplicate members are avoided, as in args: names that differ may be equal once converted to
    // UTF-8.
    std::vector<std::string> keys = {
        "\"schemaVersion\"",       "\"deviceProperties\"", "\"fastprof\"", "\"displayTimeUnit\"",
        "\"baseTimeNanoseconds\"", "\"traceEvents\"",      "\"traceName\""};
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

  // `{"ph":"M","name":NAME,"pid":P,"tid":T,"args":{KEY:` VALUE `}}`
  void metadata_event(const char* name, int64_t pid, int64_t tid, const char* key,
                      const std::string& value_json) {
    std::string text = first_event_ ? "\n" : ",\n";
    first_event_ = false;
    text += std::string("{\"ph\":\"M\",\"name\":\"") + name + "\",\"pid\":" + std::to_string(pid) +
            ",\"tid\":" + std::to_string(tid) + ",\"args\":{\"" + key + "\":" + value_json + "}}";
    out_.append(text);
  }

  void write_metadata_events() {
    const auto quoted = [](std::string_view text) {
      std::string out;
      append_json_string(out, text);
      return out;
    };
    std::vector<int64_t> pids = {capture_.pid};
    for (const TrackInfo& track : capture_.tracks) {
      if (!track.is_device() && std::find(pids.begin(), pids.end(), track.pid) == pids.end())
        pids.push_back(track.pid);
    }
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
    for (const int64_t pid : pids) {
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

  // Precomputes `,\n{"ph":PH,"cat":C,"name":N` by site and `,"pid":P,"tid":T,"ts":` by lane.
  void prepare_texts() {
    for (const SiteInfo& site : capture_.sites) {
      std::string text = ",\n{";
      std::string name = site.name, category = site.category;
      switch (site.kind) {
        case EventKind::range:
        case EventKind::async_range:
          text += "\"ph\":\"X\"";
          break;
        case EventKind::counter:
          text += "\"ph\":\"C\"";
          break;
        case EventKind::flow_begin:
          text += "\"ph\":\"s\"";
          break;
        case EventKind::flow_end:
          text += "\"ph\":\"f\",\"bp\":\"e\"";
          break;
        case EventKind::memory:
        case EventKind::out_of_memory:
          name = site.kind == EventKind::memory ? "[memory]" : "[OutOfMemory]";
          category = "cpu_instant_event";
          text += "\"ph\":\"i\",\"s\":\"t\"";
          break;
        case EventKind::mark:
        case EventKind::session_membership:
          text += "\"ph\":\"i\",\"s\":\"t\"";
          break;
      }
      text += ",\"cat\":";
      append_json_string(text, category);
      text += ",\"name\":";
      append_json_string(text, name);
      site_texts_.emplace_back(text);
    }
    for (const TraceLane& lane : layout_.lanes()) {
      lane_texts_.emplace_back(",\"pid\":" + std::to_string(capture_.tracks[lane.track].pid) +
                               ",\"tid\":" + std::to_string(lane.tid) + ",\"ts\":");
    }
    // Viewers match the two ends of a flow by name and category, so the end uses those of the
    // begin.
    for (size_t row = 0; row < capture_.size(); ++row) {
      if (capture_.kind[row] == EventKind::flow_begin && capture_.payload[row] != kNoPayload) {
        flow_site_.emplace(capture_.payload_words[capture_.payload[row]], capture_.site[row]);
      }
    }
  }

  // Writes site, lane and time. Returns the write position, with kTail bytes of room.
  static constexpr size_t kTail = 256;
  FASTPROF_ALWAYS_INLINE char* begin_event(size_t row, const ByteBlock& site) {
    const ByteBlock& lane = lane_texts_[layout_.lane_of(row)];
    if (FASTPROF_LIKELY(site.size() + lane.size() + kTail + 32 <= ByteBuffer::kMinRoom)) {
      char* at = out_.room(ByteBuffer::kMinRoom);
      at = lane.copy(site.copy(at));
      return time_.put(at, capture_.start_ns[row] - base_ns_);
    }
    return begin_long_event(row, site, lane);
  }
  FASTPROF_NOINLINE char* begin_long_event(size_t row, const ByteBlock& site,
                                           const ByteBlock& lane) {
    scratch_.resize(site.size() + 16);
    site.copy(&scratch_[0]);
    out_.append(scratch_.data(), site.size());
    char* const at = lane.copy(out_.room(ByteBuffer::kMinRoom));
    return time_.put(at, capture_.start_ns[row] - base_ns_);
  }
  template <size_t Size>
  FASTPROF_ALWAYS_INLINE static char* put(char* at, const char (&text)[Size]) noexcept {
    std::memcpy(at, text, Size - 1);
    return at + (Size - 1);
  }

  void write_row(size_t row) {
    const uint32_t site = capture_.site[row];
    switch (capture_.kind[row]) {
      case EventKind::range:
      case EventKind::async_range: {
        char* at = put(begin_event(row, site_texts_[site]), ",\"dur\":");
        const int64_t duration = capture_.end_ns[row] - capture_.start_ns[row];
        at = put_microseconds(at, duration < 0 ? 0 : duration);
        at = put(at, ",\"args\":");
        // Plain finished range without payload: write empty args, because some readers require the
        // member. Ids only on request: speedscope treats slices with different args as different
        // functions.
        if (FASTPROF_LIKELY(capture_.payload[row] == kNoPayload &&
                            capture_.flags[row] == event_flag::finished &&
                            capture_.kind[row] == EventKind::range && !links_.is_engine_row(row) &&
                            !args_.is_call(row) && !device_links_.is_on_device(row))) {
          at = put(at, "{");
          if (event_ids_) at = ChromeArgs::put_plain_ids(at, row);
          out_.advance(put(at, "}}"));
          return;
        }
        out_.advance(at);
        const DeviceLink* const device = device_links_.at(row);
        args_.write_row(row, links_.node_inside(row), device);
        out_.append("}");
        if (FASTPROF_UNLIKELY(!links_.empty())) write_link(row);
        if (FASTPROF_UNLIKELY(device != nullptr)) write_launch(row, *device);
        return;
      }
      case EventKind::mark: {
        out_.advance(put(begin_event(row, site_texts_[site]), ",\"args\":"));
        args_.write_row(row);
        out_.append("}");
        return;
      }
      case EventKind::counter:
        write_counter(row, site);
        return;
      case EventKind::flow_begin:
      case EventKind::flow_end:
        write_flow(row, site);
        return;
      case EventKind::memory:
      case EventKind::out_of_memory:
        write_memory(row, site);
        return;
      case EventKind::session_membership:  // internal to the recorder
        return;
    }
  }

  void write_counter(size_t row, uint32_t site) {
    if (capture_.payload[row] == kNoPayload) return;
    const std::vector<ArgType>& types = capture_.sites[site].arg_types;
    PayloadValue value = payload_value(capture_, types.empty() ? ArgType::int64 : types[0],
                                       capture_.payload_words[capture_.payload[row]]);
    if (value.type == ArgType::boolean) {  // counter tracks accept numbers only
      value.type = ArgType::uint64;
      value.word = value.word != 0 ? 1 : 0;
    }
    out_.advance(put(begin_event(row, site_texts_[site]), ",\"args\":{\"value\":"));
    args_.write_value(value);
    out_.append("}}");
  }

  // Writes the flow events at the begins of both ranges, as Kineto does.
  void write_link(size_t row) {
    const ForwardBackwardLink link = links_.at(row);
    if (link.id == 0) return;
    char* at = begin_event(row, link.begins ? link_begin_text_ : link_end_text_);
    out_.advance(put(put_decimal(put(at, ",\"id\":"), link.id), "}"));
  }

  // Writes an arrow from the begin of a call to that of each work it started, as Kineto does.
  void write_launch(size_t row, const DeviceLink& link) {
    const uint64_t arrow = device_links_.arrow(link);
    if (arrow == 0) return;
    char* at = begin_event(row, link.call < 0 ? launch_begin_text_ : launch_end_text_);
    out_.advance(put(put_decimal(put(at, ",\"id\":"), arrow), "}"));
  }

  void write_flow(size_t row, uint32_t site) {
    if (capture_.payload[row] == kNoPayload) return;
    const uint64_t id = capture_.payload_words[capture_.payload[row]];
    const ByteBlock* text = &site_texts_[site];
    ByteBlock of_end;
    if (capture_.kind[row] == EventKind::flow_end) {
      const auto begin = flow_site_.find(id);
      if (begin != flow_site_.end()) {
        of_end = flow_end_text(begin->second);
        text = &of_end;
      }
    }
    char* at = put(begin_event(row, *text), ",\"id\":");
    if (id <= (uint64_t{1} << 53)) {
      at = put_decimal(at, id);
    } else {  // not exactly representable as a double
      at = put(put_hex(put(at, "\"0x"), id), "\"");
    }
    out_.advance(put(at, "}"));
  }
  ByteBlock flow_end_text(uint32_t begin_site) const {
    std::string text = ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":";
    append_json_string(text, capture_.sites[begin_site].category);
    text += ",\"name\":";
    append_json_string(text, capture_.sites[begin_site].name);
    return ByteBlock(text);
  }

  void write_memory(size_t row, uint32_t site) {
    const SiteInfo& info = capture_.sites[site];
    char* at = put(begin_event(row, site_texts_[site]), ",\"args\":{\"Device Type\":");
    at = put_decimal_signed(at, info.device_type < 0 ? 0 : info.device_type);
    at = put_decimal_signed(put(at, ",\"Device Id\":"), info.device_index);
    if (capture_.payload[row] != kNoPayload) {
      const uint64_t* words = capture_.payload_words.data() + capture_.payload[row];
      if (info.kind == EventKind::memory) at = put_decimal(put(at, ",\"Addr\":"), *words++);
      at = put_decimal_signed(put(at, ",\"Bytes\":"), static_cast<int64_t>(words[0]));
      at = put_decimal_signed(put(at, ",\"Total Allocated\":"), static_cast<int64_t>(words[1]));
      at = put_decimal_signed(put(at, ",\"Total Reserved\":"), static_cast<int64_t>(words[2]));
    }
    if (event_ids_) at = put_decimal(put(at, ",\"Ev Idx\":"), row);
    out_.advance(at);
    if (!info.function.empty()) {  // an allocator of its own, such as Python's
      std::string allocator = ",\"Allocator\":";
      append_json_string(allocator, info.function);
      out_.append(allocator);
    }
    out_.append("}}");
  }

  const Capture& capture_;
  const ChromeTraceOptions& options_;
  ByteBuffer& out_;
  const bool has_ops_;
  const bool event_ids_;
  ChromeArgs args_;
  TrackLayout layout_;
  ForwardBackwardLinks links_;
  DeviceLinks device_links_;
  const ByteBlock link_begin_text_{",\n{\"ph\":\"s\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\""};
  const ByteBlock link_end_text_{
      ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\""};
  const ByteBlock launch_begin_text_{",\n{\"ph\":\"s\",\"cat\":\"ac2g\",\"name\":\"ac2g\""};
  const ByteBlock launch_end_text_{
      ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"ac2g\",\"name\":\"ac2g\""};
  int64_t base_ns_ = 0;
  TimeText time_;
  bool first_event_ = true;
  std::vector<ByteBlock> site_texts_;
  std::vector<ByteBlock> lane_texts_;
  std::unordered_map<uint64_t, uint32_t> flow_site_;
  std::string scratch_;
};

// Writes the capture to any object with write(const char*, size), such as a std::ostream. Returns
// the number of bytes written. Raises ValueError if the columns are inconsistent, IoError if the
// stream fails. Only reads the capture.
template <class Stream, class = decltype(std::declval<Stream&>().write(std::declval<const char*>(),
                                                                       std::ptrdiff_t{}))>
inline uint64_t write_chrome_trace(const Capture& capture, Stream& stream,
                                   const ChromeTraceOptions& options = {}) {
  return trace_output::to_stream<ChromeTraceWriter>(capture, stream, options);
}

// Writes the capture to a file, which appears under its name only when complete. Returns its size
// in bytes. Raises ValueError if the columns are inconsistent, IoError if the file cannot be
// written; an existing file at `path` is then unchanged. About 0.1 us per range. Any thread; only
// reads the capture.
inline uint64_t write_chrome_trace(const Capture& capture, const std::string& path,
                                   const ChromeTraceOptions& options = {}) {
  ChromeTraceOptions named = options;
  if (named.trace_name.empty()) named.trace_name = path;
  return trace_output::to_file<ChromeTraceWriter>(capture, path, named);
}
inline uint64_t write_chrome_trace(const Capture& capture, const char* path,
                                   const ChromeTraceOptions& options = {}) {
  return write_chrome_trace(capture, std::string(path), options);
}

FASTPROF_NAMESPACE_END
