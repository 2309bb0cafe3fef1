// SPDX-License-Identifier: Apache-2.0
// Writes debug annotations of Perfetto track events: the same typed arguments as in Chrome traces.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/json_check.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "fastprof/export/op_inputs_text.hpp"
#include "fastprof/export/perfetto_fields.hpp"
#include "fastprof/export/protobuf.hpp"

FASTPROF_NAMESPACE_BEGIN

// Writes the annotations of one trace. One instance per file: it holds the interned names.
class PerfettoArgs {
 public:
  PerfettoArgs(const Capture& capture, FrameName frame_name)
      : capture_(capture), frames_(std::move(frame_name)) {
    for (const SiteInfo& site : capture.sites) {
      site_iids_.emplace_back();
      for (std::string name : site.arg_names) {  // as in Chrome traces
        std::vector<size_t>& earlier = site_iids_.back();
        for (;; name += '_') {
          const size_t iid = intern(name);
          if (is_reserved(name) || std::find(earlier.begin(), earlier.end(), iid) != earlier.end())
            continue;
          earlier.push_back(iid);
          break;
        }
      }
    }
    for (const std::string& name : capture.counter_names) intern(name);
    for (const char* name : kReserved) intern(name);
    for (const char* name : {"Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Type",
                             "Device Id", "Allocator"})
      intern(name);
  }

  // Writes the interning entries of all names; each packet sequence needs them once.
  void write_names(ProtoMessage& interned_data) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      interned_data.message(perfetto::interned_data::debug_annotation_names,
                            ProtoMessage()
                                .number(perfetto::interned::iid, i + 1)
                                .text(perfetto::interned::name, names_[i]));
    }
  }

  // Appends the annotations of a range or mark to its track event. `inside`: as in ChromeArgs.
  void write_row(size_t row, ProtoMessage& event, const AutogradNode& inside = {}) {
    const uint32_t site = capture_.site[row];
    const SiteInfo& info = capture_.sites[site];
    if (capture_.payload[row] != kNoPayload) {
      const uint64_t* const words = capture_.payload_words.data() + capture_.payload[row];
      for (size_t i = 0; i < info.arg_types.size(); ++i) {
        add(event, site_iids_[site][i], payload_value(capture_, info.arg_types[i], words[i]));
      }
      for_each_detail(capture_, row, [&](DetailType type, const uint64_t* block, size_t count) {
        add_detail(event, type, block, count);
      });
      if ((capture_.flags[row] & event_flag::detail) != 0) add_counters(row, event);
    }
    const uint8_t flags = capture_.flags[row];
    const bool range = is_any_range(info.kind);
    if (range && (flags & event_flag::finished) == 0) add_bool(event, "finished", false);
    if (info.kind == EventKind::async_range || (flags & event_flag::cross_thread_end) != 0)
      add_bool(event, "is_async", true);
    if ((flags & event_flag::cross_thread_end) != 0) {
      if (const TrackInfo* ending = capture_.ending_track(row))
        add_int(event, "End thread", ending->tid);
    }
    if ((flags & event_flag::clock_discontinuity) != 0)
      add_bool(event, "clock_discontinuity", true);
    if ((flags & event_flag::clamped) != 0) add_bool(event, "clamped", true);
    if ((flags & event_flag::enclosing) != 0) add_bool(event, "enclosing", true);
    if (!capture_.call_line.empty() && capture_.call_line[row] != 0)
      add_int(event, "Call line", capture_.call_line[row]);
    if (inside.sequence_nr >= 0) {
      add_int(event, "Sequence number", inside.sequence_nr);
      add_int(event, "Fwd thread id", static_cast<int64_t>(inside.forward_thread));
    }
  }

  // Appends the annotations of an allocation, a free or a failed allocation.
  void write_memory(size_t row, ProtoMessage& event) {
    const SiteInfo& info = capture_.sites[capture_.site[row]];
    if (capture_.payload[row] != kNoPayload) {
      const uint64_t* words = capture_.payload_words.data() + capture_.payload[row];
      if (info.kind == EventKind::memory) {
        named("Addr").number(perfetto::debug_annotation::pointer_value, *words++);
        finish(event);
      }
      for (const char* name : {"Bytes", "Total Allocated", "Total Reserved"})
        add_int(event, name, static_cast<int64_t>(*words++));
    }
    add_int(event, "Device Type", info.device_type < 0 ? 0 : info.device_type);
    add_int(event, "Device Id", info.device_index);
    if (info.function.empty()) return;  // otherwise the name of the allocator, such as Python's
    named("Allocator").text(perfetto::debug_annotation::string_value, info.function);
    finish(event);
  }

 private:
  // Names that this writer may give to annotations of ranges itself.
  static constexpr const char* kReserved[] = {
      "finished",         "is_async",           "End thread",       "clock_discontinuity",
      "clamped",          "enclosing",          "Call line",        "Sequence number",
      "Fwd thread id",    "Record function id", "Node id",          "Overload name",
      "C++ stack",        "Call stack",         "Module Hierarchy", "metadata",
      "counted_fraction", "counters",           "Input Dims",       "Input Strides",
      "Input type",       "Concrete Inputs",    "Keyword Inputs"};
  static bool is_reserved(std::string_view name) noexcept {
    for (const char* own : kReserved)
      if (name == own) return true;
    return false;
  }

  size_t intern(const std::string& name) {
    const auto [at, fresh] = iids_.emplace(name, names_.size() + 1);
    if (fresh) names_.push_back(name);
    return at->second;
  }
  // Starts an annotation with an interned name.
  ProtoMessage& named(size_t iid) {
    annotation_.clear();
    return annotation_.number(perfetto::debug_annotation::name_iid, iid);
  }
  ProtoMessage& named(std::string_view name) {
    lookup_.assign(name);
    return named(iids_.find(lookup_)->second);
  }
  void finish(ProtoMessage& event) const {
    event.message(perfetto::track_event::debug_annotations, annotation_);
  }

  void add_bool(ProtoMessage& event, std::string_view name, bool value) {
    named(name).number(perfetto::debug_annotation::bool_value, value ? 1 : 0);
    finish(event);
  }
  void add_int(ProtoMessage& event, std::string_view name, int64_t value) {
    named(name).number(perfetto::debug_annotation::int_value, static_cast<uint64_t>(value));
    finish(event);
  }
  void add(ProtoMessage& event, size_t iid, const PayloadValue& value) {
    ProtoMessage& to = named(iid);
    switch (value.type) {
      case ArgType::int64:
        to.number(perfetto::debug_annotation::int_value, value.word);
        break;
      case ArgType::uint64:
        to.number(perfetto::debug_annotation::uint_value, value.word);
        break;
      case ArgType::float64:
        to.real(perfetto::debug_annotation::double_value, value.as_double());
        break;
      case ArgType::boolean:
        to.number(perfetto::debug_annotation::bool_value, value.word != 0 ? 1 : 0);
        break;
      case ArgType::string:
        to.text(perfetto::debug_annotation::string_value, value.text);
        break;
      case ArgType::pointer:
        to.number(perfetto::debug_annotation::pointer_value, value.word);
        break;
    }
    finish(event);
  }

  // Adds the range's performance counter values and, if any, what limits their accuracy.
  void add_counters(size_t row, ProtoMessage& event) {
    const CounterDeltas counters = decode_counters(capture_, row);
    const bool scaled = counters.status == CounterStatus::scaled;
    if (counters.status == CounterStatus::counted || scaled) {
      for (size_t i = 0; i < counters.count && i < capture_.counter_names.size(); ++i) {
        add_int(event, capture_.counter_names[i], std::llround(counters.delta[i]));
      }
    }
    if (scaled) {
      named("counted_fraction")
          .real(perfetto::debug_annotation::double_value, counters.counted_fraction);
      finish(event);
    }
    const std::string_view problem = counter_problem(counters);
    if (problem.empty()) return;
    named("counters").text(perfetto::debug_annotation::string_value, problem);
    finish(event);
  }

  void add_detail(ProtoMessage& event, DetailType type, const uint64_t* words, size_t count) {
    switch (type) {
      case DetailType::op: {
        constexpr std::string_view names[] = {"Sequence number", "Fwd thread id",
                                              "Record function id", "Node id"};
        for (size_t i = 0; i < count && i < 4; ++i) {
          const auto value = static_cast<int64_t>(words[i]);
          // PyTorch shows no forward thread without a sequence number.
          if (i == 1 && static_cast<int64_t>(words[0]) < 0) continue;
          if (i == 0 || i == 3 ? value >= 0 : value > 0) add_int(event, names[i], value);
        }
        return;
      }
      case DetailType::cpp_stack: {
        ProtoMessage& to = named("C++ stack");
        for (size_t i = 0; i < count; ++i) {
          ProtoMessage frame;
          if (frames_.known()) {
            frame.text(perfetto::debug_annotation::string_value, frames_.of(words[i]));
          } else {
            frame.number(perfetto::debug_annotation::pointer_value, words[i]);
          }
          to.message(perfetto::debug_annotation::array_values, frame);
        }
        finish(event);
        return;
      }
      case DetailType::json: {
        if (count == 0) return;
        const std::string_view text = capture_string(capture_, words[0]);
        named("metadata")
            .text(is_json_value(text) ? perfetto::debug_annotation::legacy_json_value
                                      : perfetto::debug_annotation::string_value,
                  text);
        finish(event);
        return;
      }
      case DetailType::python_stack: {  // one frame per line, innermost first
        if (count == 0) return;
        named("Call stack")
            .text(perfetto::debug_annotation::string_value, capture_string(capture_, words[0]));
        finish(event);
        return;
      }
      case DetailType::modules: {
        if (count == 0) return;
        named("Module Hierarchy")
            .text(perfetto::debug_annotation::string_value, capture_string(capture_, words[0]));
        finish(event);
        return;
      }
      case DetailType::overload: {
        if (count == 0) return;
        named("Overload name")
            .text(perfetto::debug_annotation::string_value, capture_string(capture_, words[0]));
        finish(event);
        return;
      }
      case DetailType::op_inputs: {
        const OpInputTexts& texts = inputs_.of(words, count);
        for (const auto& [name, text] : texts.inputs) add_json(event, name, text);
        if (texts.keywords.empty()) return;
        std::string members = "{";
        for (const auto& [name, text] : texts.keywords) {
          if (members.size() > 1) members += ", ";
          append_json_string(members, name);
          members += ": " + text;
        }
        add_json(event, "Keyword Inputs", members + "}");
        return;
      }
      case DetailType::counters_begin:
      case DetailType::counters_end:  // see add_counters
      case DetailType::nothing:
      case DetailType::op_inputs_ref:  // visited as `op_inputs`
        return;
    }
  }

  void add_json(ProtoMessage& event, std::string_view name, std::string_view text) {
    named(name).text(perfetto::debug_annotation::legacy_json_value, text);
    finish(event);
  }

  const Capture& capture_;
  FrameNames frames_;
  OpInputTextCache inputs_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> iids_;
  std::vector<std::vector<size_t>> site_iids_;  // by site: name id of each argument
  ProtoMessage annotation_;
  std::string lookup_;
};

FASTPROF_NAMESPACE_END
