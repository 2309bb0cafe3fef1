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
#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/json_escape.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/chrome_args.hpp"
#include "fastprof/export/chrome_event_heads.hpp"
#include "fastprof/export/chrome_flows.hpp"
#include "fastprof/export/chrome_metadata.hpp"
#include "fastprof/export/chrome_trace_options.hpp"
#include "fastprof/export/decimal.hpp"
#include "fastprof/export/device_links.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "fastprof/export/trace_output.hpp"
#include "fastprof/export/track_layout.hpp"

FASTPROF_NAMESPACE_BEGIN

// Writes one capture as Chrome trace JSON. Use write_chrome_trace; the capture must be validated.
class ChromeTraceWriter {
 public:
  ChromeTraceWriter(const Capture& capture, const ChromeTraceOptions& options, ByteBuffer& out)
      : capture_(capture),
        options_(options),
        out_(out),
        has_ops_(shows_ops(capture) || !capture.device_links.empty()),
        event_ids_(chosen(options.event_ids)),
        args_(capture, out, options.frame_name, event_ids_, options.call_stacks),
        layout_(capture),
        links_(capture),
        device_links_(capture),
        metadata_(capture, options, layout_, out, base_ns(capture, options)),
        heads_(capture, layout_, out, base_ns(capture, options)),
        flows_(capture, links_, device_links_, heads_, out) {}

  void write() {
    metadata_.write_header();
    metadata_.write_names();
    for (size_t row = 0; row < capture_.size(); ++row) write_row(row);
    if (marks_window()) metadata_.write_window_marks();
    metadata_.write_end();
  }

 private:
  static int64_t base_ns(const Capture& capture, const ChromeTraceOptions& options) noexcept {
    constexpr int64_t three_months_ns = 7889238 * int64_t{1000000000};
    return options.base_time_ns != ChromeTraceOptions::kAutomaticBase
               ? options.base_time_ns
               : capture.t0_ns / three_months_ns * three_months_ns;
  }
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

  void write_row(size_t row) {
    const uint32_t site = capture_.site[row];
    switch (capture_.kind[row]) {
      case EventKind::range:
      case EventKind::async_range: {
        char* at = put_literal(heads_.begin(row), ",\"dur\":");
        const int64_t duration = capture_.end_ns[row] - capture_.start_ns[row];
        at = put_microseconds(at, duration < 0 ? 0 : duration);
        at = put_literal(at, ",\"args\":");
        // Plain finished range without payload: write empty args, because some readers require the
        // member. Ids only on request: speedscope treats slices with different args as different
        // functions.
        if (FASTPROF_LIKELY(capture_.payload[row] == kNoPayload &&
                            capture_.flags[row] == event_flag::finished &&
                            capture_.kind[row] == EventKind::range && !links_.is_engine_row(row) &&
                            !args_.is_call(row) && !device_links_.is_on_device(row))) {
          at = put_literal(at, "{");
          if (event_ids_) at = ChromeArgs::put_plain_ids(at, row);
          out_.advance(put_literal(at, "}}"));
          return;
        }
        out_.advance(at);
        const DeviceLink* const device = device_links_.at(row);
        args_.write_row(row, links_.node_inside(row), device);
        out_.append("}");
        if (FASTPROF_UNLIKELY(!links_.empty())) flows_.write_link(row);
        if (FASTPROF_UNLIKELY(device != nullptr)) flows_.write_launch(row, *device);
        return;
      }
      case EventKind::mark: {
        out_.advance(put_literal(heads_.begin(row), ",\"args\":"));
        args_.write_row(row);
        out_.append("}");
        return;
      }
      case EventKind::counter:
        write_counter(row, site);
        return;
      case EventKind::flow_begin:
      case EventKind::flow_end:
        flows_.write_flow(row);
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
    out_.advance(put_literal(heads_.begin(row), ",\"args\":{\"value\":"));
    args_.write_value(value);
    out_.append("}}");
  }

  void write_memory(size_t row, uint32_t site) {
    const SiteInfo& info = capture_.sites[site];
    char* at = put_literal(heads_.begin(row), ",\"args\":{\"Device Type\":");
    at = put_decimal_signed(at, info.device_type < 0 ? 0 : info.device_type);
    at = put_decimal_signed(put_literal(at, ",\"Device Id\":"), info.device_index);
    if (capture_.payload[row] != kNoPayload) {
      const uint64_t* words = capture_.payload_words.data() + capture_.payload[row];
      if (info.kind == EventKind::memory) at = put_decimal(put_literal(at, ",\"Addr\":"), *words++);
      at = put_decimal_signed(put_literal(at, ",\"Bytes\":"), static_cast<int64_t>(words[0]));
      at = put_decimal_signed(put_literal(at, ",\"Total Allocated\":"),
                              static_cast<int64_t>(words[1]));
      at = put_decimal_signed(put_literal(at, ",\"Total Reserved\":"),
                              static_cast<int64_t>(words[2]));
    }
    if (event_ids_) at = put_decimal(put_literal(at, ",\"Ev Idx\":"), row);
    out_.advance(at);
    if (!info.function.empty()) {  // the name of the allocator, such as Python's
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
  ChromeMetadata metadata_;
  ChromeEventHeads heads_;
  ChromeFlows flows_;
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
// in bytes. Raises ValueError if the columns are inconsistent or the path ends in .gz, IoError if
// the file cannot be written; an existing file at `path` is then unchanged. About 0.1 us per range.
// Any thread; only reads the capture.
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
