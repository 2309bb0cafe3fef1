// SPDX-License-Identifier: Apache-2.0
// Decodes counters and native stacks of a captured range from its payload words. Any thread. Every
// index is checked, because a capture may come from a file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/row_details.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/payload/blocks/detail_block.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Contents of a block inside Capture::payload_words; valid as long as that column.
struct DetailSpan {
  const uint64_t* words = nullptr;
  uint32_t count = 0;
  uint32_t flags = 0;  // DetailBlock::reserved
  bool found = false;
};

// Returns the first block of this type of a row; found is false if there is none or the payload is
// malformed. DetailType::op_inputs also matches references to shared blocks.
inline DetailSpan find_detail_block(const Capture& capture, size_t row, DetailType type) {
  DetailSpan span;
  const RowDetails details = details_of(capture, row);
  for_each_block(details.words, details.room, [&](DetailBlock block, const uint64_t* contents) {
    if (block.type == type) {
      span = {contents, block.count, block.reserved, true};
      return false;
    }
    if (block.type != DetailType::op_inputs_ref || type != DetailType::op_inputs) return true;
    const SharedBlock shared = shared_block(capture.payload_words, contents[-1]);
    span = {shared.words, shared.count, shared.flags, shared.words != nullptr};
    return false;
  });
  return span;
}

// How the counters of a range were measured.
enum class CounterStatus : uint8_t {
  none = 0,     // the range has no counters
  counted = 1,  // `delta` is exact
  scaled = 2,   // the CPU shared its counters: `delta` is extrapolated from `counted_fraction` of
                // the time
  not_counted = 3,  // never on the CPU's counters in that time: `delta` is 0, meaningless
  open = 4,         // the range did not end on its own thread in the session: only `begin` is known
  unavailable = 5,  // could not be opened or read on that thread, see `error`
};

// Counters of one range, in the order of Capture::counter_names.
struct CounterDeltas {
  CounterStatus status = CounterStatus::none;
  int error = 0;  // errno, if unavailable; see counter_reason
  uint32_t count = 0;
  uint64_t begin[kMaxCounters] = {};  // the thread's totals at the begin
  double delta[kMaxCounters] = {};    // counted between begin and end
  double counted_fraction = 1;        // fraction of the time that the counters were running
};

// Decodes the counters of a row. Scaling as in perf_event_open(2): difference * time enabled / time
// running, each over the range's duration.
inline CounterDeltas decode_counters(const Capture& capture, size_t row) {
  CounterDeltas result;
  const DetailSpan begin = find_detail_block(capture, row, DetailType::counters_begin);
  if (!begin.found || begin.count < 2 || begin.count > kMaxCounters + 2) return result;
  const DetailSpan end = find_detail_block(capture, row, DetailType::counters_end);
  result.count = begin.count - 2;
  for (uint32_t i = 0; i < result.count; ++i) result.begin[i] = begin.words[i];
  if (((begin.flags | end.flags) & detail_flag::unavailable) != 0) {
    result.status = CounterStatus::unavailable;
    result.error = static_cast<int>(
        ((begin.flags & detail_flag::unavailable) != 0 ? begin.flags : end.flags) >> 16);
    return result;
  }
  if (!end.found || end.count != begin.count || (end.flags & detail_flag::written) == 0) {
    result.status = CounterStatus::open;
    return result;
  }
  const uint64_t enabled = end.words[result.count] - begin.words[result.count];
  const uint64_t running = end.words[result.count + 1] - begin.words[result.count + 1];
  double factor = 1;
  result.status = CounterStatus::counted;
  if (running < enabled) {
    result.status = running == 0 ? CounterStatus::not_counted : CounterStatus::scaled;
    factor = running == 0 ? 0 : static_cast<double>(enabled) / static_cast<double>(running);
    result.counted_fraction = static_cast<double>(running) / static_cast<double>(enabled);
  }
  for (uint32_t i = 0; i < result.count; ++i)
    result.delta[i] = static_cast<double>(end.words[i] - begin.words[i]) * factor;
  return result;
}

// Return addresses of one range, innermost first; null and 0 if it has none. Resolve them with
// Symbolizer::return_address (symbolize.hpp), because the call precedes the address.
struct CppStackFrames {
  const uint64_t* addresses = nullptr;
  uint32_t count = 0;
  bool truncated = false;
};

// Returns the native stack of a row.
inline CppStackFrames decode_cpp_stack(const Capture& capture, size_t row) {
  CppStackFrames frames;
  const DetailSpan span = find_detail_block(capture, row, DetailType::cpp_stack);
  if (!span.found) return frames;
  frames.addresses = span.words;
  frames.count = span.count;
  frames.truncated = (span.flags & detail_flag::truncated) != 0;
  return frames;
}

FASTPROF_NAMESPACE_END
