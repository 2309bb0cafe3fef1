// SPDX-License-Identifier: Apache-2.0
// Validates a Capture, so that its columns can be used as indices, and classifies its rows.
#pragma once

#include <string>

#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/row_details.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns whether a row is a range that nests: it has a self time and may be a parent. Async ranges
// and ranges that ended on another thread do not; they may have a parent, but do not reduce its
// self time.
inline bool is_nesting_range(const Capture& capture, size_t row) noexcept {
  return capture.kind[row] == EventKind::range &&
         (capture.flags[row] & event_flag::cross_thread_end) == 0;
}

// Returns whether every shared block that these details refer to exists.
inline bool shared_blocks_exist(const Capture& capture, const RowDetails& details) noexcept {
  bool exist = true;
  for_each_block(details.words, details.room, [&](DetailBlock block, const uint64_t* contents) {
    if (block.type == DetailType::op_inputs_ref &&
        shared_block(capture.payload_words, contents[-1]).words == nullptr)
      exist = false;
    return exist;
  });
  return exist;
}

// Raises ValueError, naming the first row whose columns are inconsistent. O(rows). Captures made by
// a session are valid by construction; every writer calls this for captures filled by hand or read
// from a file.
inline void validate_capture(const Capture& capture) {
  const size_t rows = capture.start_ns.size();
  const auto fail = [](size_t row, const char* what) {
    raise<ValueError>("capture row " + std::to_string(row) + ": " + what);
  };
  if (capture.end_ns.size() != rows || capture.site.size() != rows ||
      capture.track.size() != rows || capture.parent.size() != rows ||
      capture.payload.size() != rows || capture.kind.size() != rows ||
      capture.flags.size() != rows ||
      (!capture.call_line.empty() && capture.call_line.size() != rows)) {
    raise<ValueError>("the columns of a capture must have one length");
  }
  if (rows > static_cast<size_t>(INT32_MAX)) raise<ValueError>("a capture has at most 2^31-1 rows");
  if (capture.cross_thread_end_row.size() != capture.cross_thread_end_track.size())
    raise<ValueError>("cross_thread_end_row and cross_thread_end_track must have one length");
  for (size_t site = 0; site < capture.sites.size(); ++site) {
    if (capture.sites[site].arg_names.size() < capture.sites[site].arg_types.size())
      raise<ValueError>("site " + std::to_string(site) + " has fewer argument names than types");
  }
  const size_t words = capture.payload_words.size();
  uint32_t track = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (capture.site[row] >= capture.sites.size()) fail(row, "invalid site index");
    if (capture.track[row] >= capture.tracks.size()) fail(row, "no such track");
    if (capture.track[row] < track) fail(row, "rows must be grouped by ascending track");
    if (row > 0 && capture.track[row] == track &&
        capture.start_ns[row] < capture.start_ns[row - 1]) {
      fail(row, "the rows of a track must be in the order of their starts");
    }
    track = capture.track[row];
    const int32_t parent = capture.parent[row];
    if (parent < kNoParent || parent >= static_cast<int32_t>(row))
      fail(row, "its parent must be an earlier row");
    if (parent >= 0 && capture.track[static_cast<size_t>(parent)] != track)
      fail(row, "its parent is on another track");
    const SiteInfo& site = capture.sites[capture.site[row]];
    if (capture.kind[row] != site.kind) fail(row, "its kind is not its site's");
    const bool detail = (capture.flags[row] & event_flag::detail) != 0;
    const size_t needed = payload_words_of(site);
    const uint32_t payload = capture.payload[row];
    if (payload == kNoPayload) {
      if (detail) fail(row, "it has the flag detail but no payload");
      continue;
    }
    if (payload > words || words - payload < needed) fail(row, "its payload is truncated");
    if (detail) {
      const size_t rest = words - payload - needed;
      if (rest == 0 || static_cast<uint32_t>(capture.payload_words[payload + needed]) > rest - 1) {
        fail(row, "its details are truncated");
      }
      if (!shared_blocks_exist(capture, details_at(capture, payload + needed)))
        fail(row, "its details refer to missing inputs");
    }
  }
  for (size_t i = 0; i < capture.cross_thread_end_row.size(); ++i) {
    if (capture.cross_thread_end_row[i] >= rows ||
        capture.cross_thread_end_track[i] >= capture.tracks.size())
      raise<ValueError>("cross_thread_end_row " + std::to_string(i) +
                        " refers to an invalid row or track");
  }
}

FASTPROF_NAMESPACE_END
