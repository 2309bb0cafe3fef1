// SPDX-License-Identifier: Apache-2.0
// Writes the "args" of Chrome trace events: typed user arguments, then the recorder's data.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastprof/base/json_check.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/capture/nesting.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/decimal.hpp"
#include "fastprof/export/details.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "fastprof/export/op_inputs_text.hpp"

FASTPROF_NAMESPACE_BEGIN

// Writes args objects. One instance per file: it reuses scratch memory and caches decoded strings.
class ChromeArgs {
 public:
  // event_ids: write row ids, see ChromeTraceOptions.
  ChromeArgs(const Capture& capture, ByteBuffer& out, FrameName frame_name, bool event_ids,
             bool call_stacks)
      : capture_(capture),
        out_(out),
        frames_(std::move(frame_name)),
        event_ids_(event_ids),
        call_stacks_(call_stacks) {
    for (const SiteInfo& site : capture.sites) keys_.push_back(member_keys(site.arg_names));
    counter_keys_ = member_keys(capture.counter_names);
    find_calls();
  }

  // Returns whether the row is a call of a Python function, whose args are never empty.
  FASTPROF_ALWAYS_INLINE bool is_call(size_t row) const noexcept {
    return !calls_.empty() && is_call_site_[capture_.site[row]];
  }

  // Writes the args object of a range or mark. `inside`: for a range of the autograd engine, the
  // node of the backward function inside it; such a range has no sequence number of its own.
  // `device`: the link of a row of a device or of its runtime, else null.
  void write_row(size_t row, const AutogradNode& inside = {}, const DeviceLink* device = nullptr) {
    first_ = true;
    record_function_id_ = 0;
    has_own_ids_ = false;
    out_.append("{");
    const uint32_t site = capture_.site[row];
    const SiteInfo& info = capture_.sites[site];
    if (capture_.payload[row] != kNoPayload) {
      const uint64_t* const words = capture_.payload_words.data() + capture_.payload[row];
      for (size_t i = 0; i < info.arg_types.size(); ++i) {
        member(keys_[site][i]);
        write_value(payload_value(capture_, info.arg_types[i], words[i]));
      }
      for_each_detail(capture_, row, [&](DetailType type, const uint64_t* block, size_t count) {
        write_detail(type, block, count);
      });
      if ((capture_.flags[row] & event_flag::detail) != 0) write_counters(row);
    }
    const uint8_t flags = capture_.flags[row];
    const bool crossed = (flags & event_flag::cross_thread_end) != 0;
    if (is_any_range(info.kind) && (flags & event_flag::finished) == 0) {
      member(",\"finished\":false");
    }
    if (info.kind == EventKind::async_range || crossed) member(",\"is_async\":true");
    if (const TrackInfo* ending = crossed ? capture_.ending_track(row) : nullptr) {
      member(",\"End thread\":");
      write_int(ending->tid);
    }
    if ((flags & event_flag::clock_discontinuity) != 0) member(",\"clock_discontinuity\":true");
    if ((flags & event_flag::clamped) != 0) member(",\"clamped\":true");
    if ((flags & event_flag::enclosing) != 0) member(",\"enclosing\":true");
    if (inside.sequence_nr >= 0)
      write_node(inside.sequence_nr, static_cast<int64_t>(inside.forward_thread));
    if (is_call(row)) write_call(row);
    if (!capture_.call_line.empty() && capture_.call_line[row] != 0) {
      member(",\"Call line\":");
      write_int(capture_.call_line[row]);
    }
    if (device != nullptr) {  // gets the id of the range that launched it, and no "Ev Idx"
      if (device->range >= 0) {
        member(",\"External id\":");
        write_int(int64_t{device->range} + 1);
      }
    } else if (event_ids_ && !has_own_ids_) {
      write_ids(row, is_any_range(info.kind));
    }
    out_.append("}");
  }

  // Writes `"External id":R,"Record function id":0,"Ev Idx":R`, the ids of a range without details.
  static FASTPROF_ALWAYS_INLINE char* put_plain_ids(char* at, size_t row) noexcept {
    at = put_decimal(put_literal(at, "\"External id\":"), row + 1);
    return put_decimal(put_literal(at, ",\"Record function id\":0,\"Ev Idx\":"), row);
  }

  void write_value(const PayloadValue& value) {
    switch (value.type) {
      case ArgType::int64:
        write_int(static_cast<int64_t>(value.word));
        return;
      case ArgType::uint64: {
        char* const at = out_.room(32);
        out_.advance(put_decimal(at, value.word));
        return;
      }
      case ArgType::float64:
        scratch_.clear();
        append_json_double(scratch_, value.as_double());
        out_.append(scratch_);
        return;
      case ArgType::boolean:
        out_.append(value.word != 0 ? "true" : "false");
        return;
      case ArgType::string:
        write_string(value.text);
        return;
      case ArgType::pointer: {
        char* at = out_.room(32);
        std::memcpy(at, "\"0x", 3);
        at = put_hex(at + 3, value.word);
        *at = '"';
        out_.advance(at + 1);
        return;
      }
    }
    out_.append("null");
  }
  void write_int(int64_t value) {
    char* const at = out_.room(32);
    out_.advance(put_decimal_signed(at, value));
  }
  void write_string(std::string_view text) {
    scratch_.clear();
    append_json_string(scratch_, text);
    out_.append(scratch_);
  }

 private:
  // Numbers the calls of Python functions from 1, in row order, and finds the caller of each.
  // Capture::parent does not do: a range that begins in a call and outlives it would be the parent
  // of later calls.
  void find_calls() {
    bool any = false;
    for (const SiteInfo& site : capture_.sites) {
      is_call_site_.push_back(site.category == "python_function");
      any = any || is_call_site_.back();
    }
    if (!any) return;
    calls_.resize(capture_.size());
    callers_.push_back(0);
    sites_of_calls_.push_back(0);
    NestingWalk<int64_t> walk;
    for (size_t row = 0; row < calls_.size(); ++row) {
      if (row != 0 && capture_.track[row] != capture_.track[row - 1]) walk.reset();
      if (!is_call_site_[capture_.site[row]]) continue;
      calls_[row] = static_cast<uint32_t>(callers_.size());
      const int32_t caller =
          walk.enter(static_cast<int32_t>(row), capture_.start_ns[row], capture_.end_ns[row]);
      callers_.push_back(caller < 0 ? 0 : calls_[static_cast<size_t>(caller)]);
      if (!call_stacks_) continue;
      sites_of_calls_.push_back(capture_.site[row]);
      const uint32_t thread = capture_.tracks[capture_.track[row]].id_of_thread();
      threads_.try_emplace(thread, threads_.size());
    }
  }

  // Writes the numbers of a call, of its caller, and, for a torch.nn.Module, that of the object
  // among those of its class, as PyTorch does.
  void write_call(size_t row) {
    const uint32_t caller = callers_[calls_[row]];
    if (call_stacks_) {
      member(",\"Python thread\":");
      write_int(static_cast<int64_t>(
          threads_.find(capture_.tracks[capture_.track[row]].id_of_thread())->second));
    }
    member(",\"Python parent id\":");
    if (caller == 0)
      out_.append("null");
    else
      write_int(caller);
    member(",\"Python id\":");
    write_int(calls_[row]);
    const uint8_t details = capture_.flags[row] & event_flag::detail;
    if (call_stacks_ && caller != 0 && details == 0) write_callers(caller);
    const std::string& name = capture_.sites[capture_.site[row]].name;
    const size_t number = name.rfind('_') + 1;
    if (name.compare(0, 11, "nn.Module: ") != 0 || number == 0 || number == name.size() ||
        name.find_first_not_of("0123456789", number) != std::string::npos)
      return;
    member(",\"Python module id\":");
    out_.append(std::string_view(name).substr(number));
  }

  // Writes the stack of a call, from its caller outward. Consecutive calls often have one caller.
  void write_callers(uint32_t caller) {
    if (caller != last_caller_) {
      std::string names;
      for (uint32_t up = caller; up != 0; up = callers_[up]) {
        if (!names.empty()) names += ';';
        names += capture_.sites[sites_of_calls_[up]].name;
      }
      callers_text_.clear();
      append_json_string(callers_text_, names);
      last_caller_ = caller;
    }
    member(",\"Call stack\":");
    out_.append(callers_text_);
  }

  // In PyTorch's order of members. Marks do not represent an op and get only "Ev Idx".
  void write_ids(size_t row, bool range) {
    if (range) {
      member(",\"External id\":");
      write_int(static_cast<int64_t>(row + 1));
      member(",\"Record function id\":");
      write_int(record_function_id_);
    }
    member(",\"Ev Idx\":");
    write_int(static_cast<int64_t>(row));
  }

  // Appends a member, or its beginning. The text starts with a comma, which is removed for the
  // first member.
  void member(std::string_view with_comma) {
    if (first_) with_comma.remove_prefix(1);
    first_ = false;
    out_.append(with_comma);
  }

  // Returns `,"name":` for each name. Appends "_" to a name while it is reserved or a duplicate.
  static std::vector<std::string> member_keys(const std::vector<std::string>& names) {
    std::vector<std::string> keys;
    for (std::string name : names) {
      std::string key;
      for (;; name += '_') {
        key = ",";
        append_json_string(key, name);
        key += ':';
        if (!is_reserved(name) && std::find(keys.begin(), keys.end(), key) == keys.end()) break;
      }
      keys.push_back(key);
    }
    return keys;
  }

  // Returns whether this writer may add a member of this name itself.
  static bool is_reserved(std::string_view key) noexcept {
    constexpr std::string_view reserved[] = {
        "finished",         "is_async",        "End thread",       "clock_discontinuity",
        "clamped",          "enclosing",       "Python parent id", "Python id",
        "Python module id", "Sequence number", "Fwd thread id",    "Record function id",
        "External id",      "Ev Idx",          "Node id",          "Overload name",
        "C++ stack",        "Call stack",      "Module Hierarchy", "counted_fraction",
        "counters",         "Input Dims",      "Input Strides",    "Input type",
        "Concrete Inputs",  "metadata_json",   "Call line",        "Python thread"};
    for (const std::string_view name : reserved)
      if (key == name) return true;
    return false;
  }

  // Writes the range's performance counter values and, if any, what limits their accuracy.
  void write_counters(size_t row) {
    const CounterDeltas counters = decode_counters(capture_, row);
    const bool scaled = counters.status == CounterStatus::scaled;
    if (counters.status == CounterStatus::counted || scaled) {
      for (size_t i = 0; i < counters.count && i < counter_keys_.size(); ++i) {
        member(counter_keys_[i]);
        write_int(std::llround(counters.delta[i]));
      }
    }
    if (scaled) {
      member(",\"counted_fraction\":");
      scratch_.clear();
      append_json_double(scratch_, counters.counted_fraction);
      out_.append(scratch_);
    }
    const std::string_view problem = counter_problem(counters);
    if (problem.empty()) return;
    member(",\"counters\":");
    write_string(problem);
  }

  void write_detail(DetailType type, const uint64_t* words, size_t count) {
    switch (type) {
      case DetailType::op:
        write_op(words, count);
        return;
      case DetailType::cpp_stack:
        member(",\"C++ stack\":[");
        for (size_t i = 0; i < count; ++i) {
          if (i > 0) out_.append(",");
          if (frames_.known()) {
            write_string(frames_.of(words[i]));
          } else {
            write_value(payload_value(capture_, ArgType::pointer, words[i]));
          }
        }
        out_.append("]");
        return;
      case DetailType::json:
        if (count > 0) write_json(words[0]);
        return;
      case DetailType::python_stack:
        if (count > 0) write_python_stack(words[0]);
        return;
      case DetailType::modules:
        if (count == 0) return;
        member(",\"Module Hierarchy\":");
        write_string(capture_string(capture_, words[0]));
        return;
      case DetailType::overload:
        if (count == 0) return;
        member(",\"Overload name\":");
        write_string(capture_string(capture_, words[0]));
        return;
      case DetailType::op_inputs:
        write_inputs(inputs_.of(words, count));
        return;
      case DetailType::counters_begin:
      case DetailType::counters_end:  // see write_counters
      case DetailType::nothing:
      case DetailType::op_inputs_ref:  // visited as `op_inputs`
        return;
    }
  }

  // Words: sequence number, forward thread, record function id, node id; trailing ones may be
  // absent. Thread 0 means none.
  void write_op(const uint64_t* words, size_t count) {
    const auto word = [&](size_t i, int64_t none) {
      return i < count ? static_cast<int64_t>(words[i]) : none;
    };
    if (word(0, -1) >= 0) write_node(word(0, -1), std::max<int64_t>(word(1, 0), 0));
    record_function_id_ = word(2, 0);
    if (!event_ids_ && record_function_id_ > 0) {
      member(",\"Record function id\":");
      write_int(record_function_id_);
    }
    if (word(3, -1) >= 0) {
      member(",\"Node id\":");
      write_int(word(3, -1));
    }
  }

  // As Kineto does: "Fwd thread id" is written if and only if there is a sequence number.
  void write_node(int64_t sequence_nr, int64_t forward_thread) {
    member(",\"Sequence number\":");
    write_int(sequence_nr);
    member(",\"Fwd thread id\":");
    write_int(forward_thread);
  }

  void write_inputs(const OpInputTexts& texts) {
    for (const auto& [name, text] : texts.inputs) {
      member(",\"");
      out_.append(name);
      out_.append("\":");
      out_.append(text);
    }
    for (const auto& [name, text] : texts.keywords) {
      member(member_keys({name})[0]);
      out_.append(text);
    }
  }

  // Frames are separated by newlines, innermost first; Kineto separates them by ";". Stacks are
  // long and repeat, so each is encoded once.
  void write_python_stack(uint64_t index) {
    const auto [known, fresh] = python_stacks_.try_emplace(index);
    if (fresh) {
      std::string frames(capture_string(capture_, index));
      std::replace(frames.begin(), frames.end(), '\n', ';');
      append_json_string(known->second, frames);
    }
    member(",\"Call stack\":");
    out_.append(known->second);
  }

  // Inserts the members of a JSON object; any other text is written as the string "metadata_json".
  void write_json(uint64_t index) {
    const auto [known, fresh] = json_members_.try_emplace(index);
    const std::string_view text = capture_string(capture_, index);
    if (fresh) known->second = json_object_members(text);
    has_own_ids_ = has_own_ids_ || text.find("\"External id\"") != std::string_view::npos ||
                   text.find("\"Ev Idx\"") != std::string_view::npos ||
                   text.find("\"Record function id\"") != std::string_view::npos;
    if (!known->second) {
      member(",\"metadata_json\":");
      write_string(text);
    } else if (!known->second->empty()) {
      member(",");
      out_.append(*known->second);
    }
  }

  const Capture& capture_;
  ByteBuffer& out_;
  FrameNames frames_;
  std::vector<std::vector<std::string>> keys_;  // by site: `,"name":` for each argument
  std::vector<std::string> counter_keys_;
  OpInputTextCache inputs_;
  std::unordered_map<uint64_t, std::optional<std::string_view>> json_members_;
  std::unordered_map<uint64_t, std::string> python_stacks_;
  std::string scratch_;
  std::vector<bool> is_call_site_;
  std::vector<uint32_t> calls_;    // by row: number of the call, 0 if it is none; empty: no calls
  std::vector<uint32_t> callers_;  // by number of a call: that of its caller, 0 for none
  // With call_stacks_: the site of each call, by number; the numbers of threads with calls, by id.
  std::vector<uint32_t> sites_of_calls_;
  std::unordered_map<uint32_t, size_t> threads_;
  std::string callers_text_;  // of last_caller_
  uint32_t last_caller_ = 0;
  bool first_ = true;
  const bool event_ids_;
  const bool call_stacks_;
  // State of the row being written.
  int64_t record_function_id_ = 0;
  bool has_own_ids_ = false;  // its JSON details contain one of the id members
};

FASTPROF_NAMESPACE_END
