// SPDX-License-Identifier: Apache-2.0
// Decodes the typed payload of a row; shared by all trace writers.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"

FASTPROF_NAMESPACE_BEGIN

// One argument word with its type. `text` is set for strings only.
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

// Returns a string of the capture, or a placeholder if the index is out of range.
inline std::string_view capture_string(const Capture& capture, uint64_t index) noexcept {
  return index < capture.strings.size() ? std::string_view(capture.strings[index])
                                        : std::string_view("(no such string)");
}

// Decodes an argument word of the given type.
inline PayloadValue payload_value(const Capture& capture, ArgType type, uint64_t word) noexcept {
  PayloadValue value;
  value.type = type;
  value.word = word;
  if (type == ArgType::string) value.text = capture_string(capture, word);
  return value;
}

// Calls visit(type, words, count) for each block of the row's details; references to shared blocks
// are resolved. Stops at the first truncated block. The capture must be validated.
template <class Visit>
inline void for_each_detail(const Capture& capture, size_t row, Visit&& visit) {
  if ((capture.flags[row] & event_flag::detail) == 0) return;
  const size_t header = capture.payload[row] + payload_words_of(capture.sites[capture.site[row]]);
  const RowDetails details = details_at(capture, header);
  for_each_block(details.words, details.room, [&](DetailBlock block, const uint64_t* words) {
    if (block.type != DetailType::op_inputs_ref) {
      visit(block.type, words, size_t{block.count});
      return;
    }
    const SharedBlock shared = shared_block(capture.payload_words, words[-1]);
    if (shared.words != nullptr) visit(DetailType::op_inputs, shared.words, size_t{shared.count});
  });
}

// Returns the text of the stack frame with this return address. If empty, addresses are written
// instead.
using FrameName = std::function<std::string(uint64_t return_address)>;

// Caches frame names, so that each address is resolved once.
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

// Returns why a range with requested counters has no values; empty if it has them or none were
// requested.
inline std::string_view counter_problem(const CounterDeltas& counters) noexcept {
  switch (counters.status) {
    case CounterStatus::not_counted:
      return "not counted: the CPU's counters were in use by others";
    case CounterStatus::unavailable:
      return "unavailable on this thread";
    case CounterStatus::none:
    case CounterStatus::counted:
    case CounterStatus::scaled:
    case CounterStatus::open:  // "finished": false or "End thread" already shows it
      return {};
  }
  return {};
}

FASTPROF_NAMESPACE_END
