// SPDX-License-Identifier: Apache-2.0
// EventView and Events: row-by-row access to a capture, for programs that do not need its columns.
//
//   for (const fastprof::EventView event : session.events())
//     if (event.is_range()) use(event.name(), event.start_ns(), event.duration_ns());
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/self_times.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/export/frame_name.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "fastprof/payload/op_inputs/op_inputs.hpp"

FASTPROF_NAMESPACE_BEGIN

// A report of an allocator: an allocation (size_bytes > 0), a free (< 0), or, if the row's kind is
// out_of_memory, the requested size. Totals in bytes after the event; 0 if unknown.
struct MemoryReport {
  uint64_t address = 0;
  int64_t size_bytes = 0;
  uint64_t total_allocated_bytes = 0;
  uint64_t total_reserved_bytes = 0;
  int16_t device_type = 0;  // DeviceType
  int16_t device_index = 0;
};

// One row of a capture. A view: valid while the capture exists and is not changed. Any thread.
class EventView {
 public:
  EventView(const Capture& capture, size_t row) noexcept : capture_(&capture), row_(row) {}

  size_t row() const noexcept { return row_; }
  const std::string& name() const noexcept { return site().name; }
  const std::string& category() const noexcept { return site().category; }
  const SiteInfo& site() const noexcept { return capture_->sites[capture_->site[row_]]; }
  // The thread on which the event began. `tid` is the kernel's thread id; `id` is unique over the
  // process's life.
  const TrackInfo& track() const noexcept { return capture_->tracks[capture_->track[row_]]; }
  // The thread on which it ended.
  const TrackInfo& end_track() const noexcept {
    const TrackInfo* ending = capture_->ending_track(row_);
    return ending != nullptr ? *ending : track();
  }
  RecordScope scope() const noexcept { return site().scope; }
  EventKind kind() const noexcept { return capture_->kind[row_]; }
  bool is_range() const noexcept { return kind() == EventKind::range; }
  // Unix time in nanoseconds. An unfinished event ends at the session's stop; an instant ends at
  // its start.
  int64_t start_ns() const noexcept { return capture_->start_ns[row_]; }
  int64_t end_ns() const noexcept { return capture_->end_ns[row_]; }
  int64_t duration_ns() const noexcept { return end_ns() - start_ns(); }
  // Self time in nanoseconds: duration_ns minus that of the direct children. 0 for instants and for
  // async or cross-thread ranges, which may overlap others. Visits the rows inside the range; for
  // all rows use self_times_ns(capture).
  int64_t self_ns() const noexcept { return self_time_ns(*capture_, row_); }
  // Whether it is an async range or a range that ended on another thread.
  bool is_async() const noexcept {
    return kind() == EventKind::async_range ||
           (capture_->flags[row_] & event_flag::cross_thread_end) != 0;
  }
  // Whether it ended before the session's stop.
  bool finished() const noexcept { return (capture_->flags[row_] & event_flag::finished) != 0; }
  // Row of the enclosing range of its thread, or kNoParent.
  int32_t parent() const noexcept { return capture_->parent[row_]; }

  // Number of arguments; i must be less in all functions below that take it.
  size_t arg_count() const noexcept { return has_args() ? site().arg_names.size() : 0; }
  const std::string& arg_name(size_t i) const noexcept { return site().arg_names[i]; }
  ArgType arg_type(size_t i) const noexcept { return site().arg_types[i]; }
  // An integer argument, or the value of an integer counter (argument 0). Other types are
  // converted: doubles are truncated and clamped, booleans become 0 or 1, strings 0; unsigned
  // values above INT64_MAX are clamped (use arg_uint64).
  int64_t arg_int64(size_t i) const noexcept {
    const PayloadValue value = arg(i);
    switch (value.type) {
      case ArgType::int64:
        return static_cast<int64_t>(value.word);
      case ArgType::float64:
        return clamped<int64_t>(value.as_double());
      case ArgType::string:
        return 0;
      case ArgType::uint64:
      case ArgType::boolean:
      case ArgType::pointer:
        break;
    }
    return value.word > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value.word);
  }
  // The same as unsigned, for unsigned integers and pointers; negative numbers become 0.
  uint64_t arg_uint64(size_t i) const noexcept {
    const PayloadValue value = arg(i);
    if (value.type == ArgType::uint64 || value.type == ArgType::pointer) return value.word;
    if (value.type == ArgType::float64) return clamped<uint64_t>(value.as_double());
    const int64_t number = arg_int64(i);
    return number < 0 ? 0 : static_cast<uint64_t>(number);
  }
  // The argument with its type; for a string also its text. i < arg_count().
  PayloadValue arg(size_t i) const noexcept {
    return payload_value(*capture_, arg_type(i),
                         capture_->payload_words[capture_->payload[row_] + i]);
  }
  // The argument as a double, which represents integers up to 2^53 exactly; 0 for strings.
  double arg_number(size_t i) const noexcept {
    const uint64_t word = capture_->payload_words[capture_->payload[row_] + i];
    switch (arg_type(i)) {
      case ArgType::int64:
        return static_cast<double>(static_cast<int64_t>(word));
      case ArgType::float64: {
        double value;
        std::memcpy(&value, &word, sizeof value);
        return value;
      }
      case ArgType::string:
        return 0;
      case ArgType::uint64:
      case ArgType::boolean:
      case ArgType::pointer:
        break;
    }
    return static_cast<double>(word);
  }
  // A string argument's text; empty for other types.
  std::string arg_text(size_t i) const {
    if (arg_type(i) != ArgType::string) return {};
    const uint64_t word = capture_->payload_words[capture_->payload[row_] + i];
    return word < capture_->strings.size() ? capture_->strings[word] : std::string();
  }

  // The id of a flow_begin or flow_end event; both ends of an arrow have the same. 0 for other
  // kinds.
  uint64_t flow_id() const noexcept {
    const bool is_flow = kind() == EventKind::flow_begin || kind() == EventKind::flow_end;
    return is_flow ? capture_->payload_words[capture_->payload[row_]] : 0;
  }
  // The report of a memory or out_of_memory event; all 0 for other kinds.
  MemoryReport memory() const noexcept {
    MemoryReport report;
    if (kind() != EventKind::memory && kind() != EventKind::out_of_memory) return report;
    const uint64_t* words = capture_->payload_words.data() + capture_->payload[row_];
    if (kind() == EventKind::memory) report.address = *words++;
    report.size_bytes = static_cast<int64_t>(words[0]);
    report.total_allocated_bytes = words[1];
    report.total_reserved_bytes = words[2];
    report.device_type = site().device_type;
    report.device_index = site().device_index;
    return report;
  }

  // Changes of the perf counters (SessionOptions::counters) over the range, in the order of
  // Capture::counter_names.
  CounterDeltas counters() const { return decode_counters(*capture_, row_); }
  // Native return addresses, recorded with SessionOptions::cpp_stacks, innermost first.
  CppStackFrames cpp_stack() const { return decode_cpp_stack(*capture_, row_); }
  // The stack as text, innermost frame first: Python frames ("file(line): function") if there are
  // any, else native frames. `name` converts an address to text; without it, the process's symbols
  // are read on each call, so for many events pass capture_frame_name(capture).
  std::vector<std::string> stack(FrameName name = {}) const {
    std::vector<std::string> frames;
    const DetailSpan python = find_detail_block(*capture_, row_, DetailType::python_stack);
    if (python.found && python.count != 0) {
      const std::string_view text = capture_string(*capture_, python.words[0]);
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        frames.emplace_back(text.substr(at, end - at));
        at = end + 1;
      }
      return frames;
    }
    const CppStackFrames native = cpp_stack();
    if (native.count != 0 && !name) name = capture_frame_name(*capture_);
    for (uint32_t i = 0; i < native.count; ++i) {
      if (name) {
        frames.push_back(name(native.addresses[i]));
        continue;
      }
      char text[19];  // no symbols: the capture is of another process
      std::snprintf(text, sizeof text, "0x%llx",
                    static_cast<unsigned long long>(native.addresses[i]));
      frames.emplace_back(text);
    }
    return frames;
  }

  // Details of a RecordFunction. sequence_number: -1 if it has none. forward_track: id of the track
  // of the forward call, 0 if none.
  int64_t sequence_number() const { return static_cast<int64_t>(op_word(0, -1)); }
  uint64_t forward_track() const { return op_word(1, 0); }
  // The event's node id, else the process's (Capture::node_id). -1 if neither is set.
  int64_t node_id() const {
    const auto own = static_cast<int64_t>(op_word(3, -1));
    return own >= 0 ? own : capture_->node_id;
  }
  // The operator's overload name; empty if it has none. Valid while the capture exists.
  std::string_view overload_name() const {
    const DetailSpan span = find_detail_block(*capture_, row_, DetailType::overload);
    return span.found && span.count != 0 ? capture_string(*capture_, span.words[0])
                                         : std::string_view();
  }
  // Inputs, recorded with SessionOptions::record_shapes; empty otherwise.
  OpInputs inputs() const {
    OpInputs found;
    const DetailSpan span = find_detail_block(*capture_, row_, DetailType::op_inputs);
    if (span.found) decode_op_inputs(span.words, span.count, found);
    return found;
  }

 private:
  template <class Int>
  static Int clamped(double number) noexcept {
    constexpr auto low = std::numeric_limits<Int>::min(), high = std::numeric_limits<Int>::max();
    if (!(number > static_cast<double>(low))) return number <= static_cast<double>(low) ? low : 0;
    return number >= static_cast<double>(high) ? high : static_cast<Int>(number);
  }
  uint64_t op_word(uint32_t i, int64_t none) const {
    const DetailSpan span = find_detail_block(*capture_, row_, DetailType::op);
    return span.found && i < span.count ? span.words[i] : static_cast<uint64_t>(none);
  }
  bool has_args() const noexcept {
    const EventKind k = kind();
    const bool typed = k == EventKind::range || k == EventKind::async_range ||
                       k == EventKind::mark || k == EventKind::counter;
    return typed && capture_->payload[row_] != kNoPayload;
  }

  const Capture* capture_;
  size_t row_;
};

// The rows of a capture as a range of EventViews: track by track, each in begin order. A view, like
// EventView.
class Events {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = EventView;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = EventView;

    iterator() noexcept = default;  // so that Events is a range of C++20
    iterator(const Capture& capture, size_t row) noexcept : capture_(&capture), row_(row) {}
    EventView operator*() const noexcept { return {*capture_, row_}; }
    iterator& operator++() noexcept {
      ++row_;
      return *this;
    }
    iterator operator++(int) noexcept {
      iterator before = *this;
      ++row_;
      return before;
    }
    bool operator==(const iterator& other) const noexcept { return row_ == other.row_; }
    bool operator!=(const iterator& other) const noexcept { return row_ != other.row_; }

   private:
    const Capture* capture_ = nullptr;
    size_t row_ = 0;
  };

  explicit Events(const Capture& capture) noexcept : capture_(&capture) {}
  iterator begin() const noexcept { return {*capture_, 0}; }
  iterator end() const noexcept { return {*capture_, capture_->size()}; }
  size_t size() const noexcept { return capture_->size(); }
  EventView operator[](size_t row) const noexcept { return {*capture_, row}; }

 private:
  const Capture* capture_;
};

FASTPROF_NAMESPACE_END
