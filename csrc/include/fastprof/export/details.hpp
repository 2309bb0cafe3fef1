// SPDX-License-Identifier: Apache-2.0
// The typed contents of a row's payload, read once for all trace writers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/range_detail/decode_detail.hpp"

FASTPROF_NAMESPACE_BEGIN

// One argument word as its type says. `text` is set for strings.
struct PayloadValue {
  ArgType type = ArgType::int64;
  uint64_t word = 0;
  std::string_view text;

  double as_double() const noexcept {
    double value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
};

inline std::string_view capture_string(const Capture& capture, uint64_t index) noexcept {
  return index < capture.strings.size() ? std::string_view(capture.strings[index])
                                        : std::string_view("(no such string)");
}

inline PayloadValue payload_value(const Capture& capture, ArgType type, uint64_t word) noexcept {
  PayloadValue value;
  value.type = type;
  value.word = word;
  if (type == ArgType::string) value.text = capture_string(capture, word);
  return value;
}

// Calls visit(type, words, count) for each block of the row's details; what rows share as if it lay
// there. The capture must have been validated.
template <class Visit>
inline void for_each_detail(const Capture& capture, size_t row, Visit&& visit) {
  if ((capture.flags[row] & event_flag::detail) == 0) return;
  const size_t header = capture.payload[row] + payload_words_of(capture.sites[capture.site[row]]);
  const uint64_t* const words = capture.payload_words.data();
  size_t at = header + 1;
  const size_t end = at + static_cast<uint32_t>(words[header]);  // DetailHeader::words
  while (at < end) {
    const uint64_t block = words[at++];  // DetailBlock
    const auto type = static_cast<DetailType>(block & 0xFFFF);
    const size_t count = std::min<size_t>(block >> 16 & 0xFFFF, end - at);
    if (type == DetailType{}) break;  // padding
    if (type == DetailType::shapes_at) {
      const SharedBlock shared = shared_block(capture.payload_words, block);
      if (shared.words != nullptr) visit(DetailType::shapes, shared.words, size_t{shared.count});
    } else {
      visit(type, words + at, count);
    }
    at += count;
  }
}

// Text for the return address of a stack frame. Empty: addresses are written as they are.
using FrameName = std::function<std::string(uint64_t return_address)>;

// Names of frames, each asked for once.
class FrameNames {
 public:
  explicit FrameNames(FrameName name) : name_(std::move(name)) {}
  bool known() const noexcept { return static_cast<bool>(name_); }
  const std::string& of(uint64_t address) {
    const auto [at, fresh] = names_.try_emplace(address);
    if (fresh) at->second = name_(address);
    return at->second;
  }

 private:
  FrameName name_;
  std::unordered_map<uint64_t, std::string> names_;
};

// Why a range that asked for counters has no values; empty when it has them or never asked.
inline std::string_view counter_problem(const CounterDeltas& counters) noexcept {
  switch (counters.status) {
    case CounterStatus::not_counted:
      return "not counted: the CPU's counters were in use by others";
    case CounterStatus::unavailable:
      return "unavailable on this thread";
    case CounterStatus::none:
    case CounterStatus::counted:
    case CounterStatus::scaled:
    case CounterStatus::open:  // "finished": false or "End thread" says it already
      return {};
  }
  return {};
}

FASTPROF_NAMESPACE_END
