// SPDX-License-Identifier: Apache-2.0
// Counters and native stacks of a captured range, read from its payload words. Any thread; every
// index is checked, since a capture may come from a file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/range_detail/detail_block.hpp"

FASTPROF_NAMESPACE_BEGIN

// Words inside Capture::payload_words. Valid as long as they are.
struct DetailSpan {
  const uint64_t* words = nullptr;
  uint32_t count = 0;
  uint32_t flags = 0;  // DetailBlock::reserved
  bool found = false;
};

// The first block of this type of a row; found is false when the row has none or its payload is
// malformed. Inputs are found (DetailType::shapes) wherever they lie.
inline DetailSpan find_detail_block(const Capture& capture, size_t row, DetailType type) {
  DetailSpan span;
  if (row >= capture.size() || row >= capture.flags.size() || row >= capture.payload.size() ||
      row >= capture.site.size())
    return span;
  if ((capture.flags[row] & event_flag::detail) == 0 || capture.payload[row] == kNoPayload)
    return span;
  const uint32_t site = capture.site[row];
  if (site >= capture.sites.size()) return span;
  size_t at = size_t{capture.payload[row]} + capture.sites[site].arg_types.size();
  const size_t size = capture.payload_words.size();
  if (at >= size) return span;
  const uint64_t total = capture.payload_words[at] & 0xFFFFFFFFu;  // DetailHeader::words
  if (total > size - at - 1) return span;
  const size_t last = at + 1 + static_cast<size_t>(total);
  for (++at; at < last;) {
    const DetailBlock block = detail_words::block_of(capture.payload_words[at]);
    if (block.count > last - at - 1 || static_cast<uint16_t>(block.type) == 0)
      return span;  // 0: padding
    if (block.type == type) {
      span.words = capture.payload_words.data() + at + 1;
      span.count = block.count;
      span.flags = block.reserved;
      span.found = true;
      return span;
    }
    if (block.type == DetailType::shapes_at && type == DetailType::shapes) {
      const SharedBlock shared = shared_block(capture.payload_words, capture.payload_words[at]);
      span.words = shared.words;
      span.count = shared.count;
      span.flags = shared.flags;
      span.found = shared.words != nullptr;
      return span;
    }
    at += 1 + size_t{block.count};
  }
  return span;
}

enum class CounterStatus : uint8_t {
  none = 0,     // the range has no counters
  counted = 1,  // `delta` is exact
  scaled = 2,   // the CPU shared its counters: `delta` is extrapolated from `counted_fraction` of
                // the time
  not_counted = 3,  // not on the CPU's counters at all meanwhile: `delta` is 0 and says nothing
  open = 4,  // the range did not end on its own thread inside the session: only `begin` is known
  unavailable = 5,  // could not be opened or read on that thread: see `error`
};

// Counters of one range; names in Capture::counter_names, in the same order.
struct CounterDeltas {
  CounterStatus status = CounterStatus::none;
  int error = 0;  // errno, if unavailable; see counter_reason
  uint32_t count = 0;
  uint64_t begin[kMaxCounters] = {};  // totals of the thread at begin
  double delta[kMaxCounters] = {};    // counted between begin and end
  double counted_fraction = 1;        // of the time that the thread ran
};

// Scaling: difference * time enabled / time running, as perf_event_open(2) gives it, over the
// range's own times.
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

// Return addresses of one range, innermost first; null and 0 when it has none. Look them up with
// Symbolizer::return_address (symbolize.hpp): the call is before the address.
struct CppStackFrames {
  const uint64_t* addresses = nullptr;
  uint32_t count = 0;
  bool truncated = false;
};

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
