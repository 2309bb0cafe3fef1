// SPDX-License-Identifier: Apache-2.0
// What must hold of a Capture before anything indexes with its columns, and the questions every
// reader of it asks.
#pragma once

#include <string>

#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/shared_block.hpp"

FASTPROF_NAMESPACE_BEGIN

// A range that nests: it has a self time and may be a parent. Async ranges and ranges that ended on
// another thread are not (they have a parent, but take nothing from its self time).
inline bool is_nesting_range(const Capture& capture, size_t row) noexcept {
  return capture.kind[row] == EventKind::range &&
         (capture.flags[row] & event_flag::foreign_end) == 0;
}

// Has a begin and an end.
inline bool is_any_range(EventKind kind) noexcept {
  return kind == EventKind::range || kind == EventKind::async_range;
}

// Words of payload a row of this site carries in front of its details.
inline size_t payload_words_of(const SiteInfo& site) noexcept {
  switch (site.kind) {
    case EventKind::range:
    case EventKind::async_range:
    case EventKind::mark:
      return site.arg_types.size();
    case EventKind::counter:
    case EventKind::flow_begin:
    case EventKind::flow_end:
      return 1;
    case EventKind::memory:
      return 4;
    case EventKind::out_of_memory:
      return 3;
    case EventKind::segment:
      return 0;
  }
  return 0;
}

// Whether all that the blocks behind the DetailHeader at words[header] refer to is there.
inline bool shared_blocks_exist(const Column<uint64_t>& words, size_t header) noexcept {
  const size_t end = header + 1 + static_cast<uint32_t>(words[header]);
  for (size_t at = header + 1; at < end;) {
    const uint64_t block = words[at];
    const auto type = static_cast<DetailType>(block & 0xFFFF);
    if (type == DetailType{}) return true;  // padding
    if (type == DetailType::shapes_at && shared_block(words, block).words == nullptr) return false;
    at += 1 + (block >> 16 & 0xFFFF);
  }
  return true;
}

// Raises ValueError naming the first row whose columns disagree. O(rows). Captures made by a
// session hold by construction; those filled by hand or read from a file are checked by every
// writer.
inline void validate_capture(const Capture& capture) {
  const size_t rows = capture.start_ns.size();
  const auto fail = [](size_t row, const char* what) {
    raise<ValueError>("capture row " + std::to_string(row) + ": " + what);
  };
  if (capture.end_ns.size() != rows || capture.site.size() != rows ||
      capture.track.size() != rows || capture.parent.size() != rows ||
      capture.payload.size() != rows || capture.kind.size() != rows ||
      capture.flags.size() != rows) {
    raise<ValueError>("the columns of a capture must have one length");
  }
  if (rows > static_cast<size_t>(INT32_MAX)) raise<ValueError>("a capture has at most 2^31-1 rows");
  if (capture.foreign_row.size() != capture.foreign_end_track.size())
    raise<ValueError>("foreign_row and foreign_end_track must have one length");
  for (size_t site = 0; site < capture.sites.size(); ++site) {
    if (capture.sites[site].arg_names.size() < capture.sites[site].arg_types.size())
      raise<ValueError>("site " + std::to_string(site) + " has fewer argument names than types");
  }
  const size_t words = capture.payload_words.size();
  uint32_t track = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (capture.site[row] >= capture.sites.size()) fail(row, "no such site");
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
      if (detail) fail(row, "flag detail without a payload");
      continue;
    }
    if (payload > words || words - payload < needed) fail(row, "its payload is cut short");
    if (detail) {
      const size_t rest = words - payload - needed;
      if (rest == 0 || static_cast<uint32_t>(capture.payload_words[payload + needed]) > rest - 1) {
        fail(row, "its details are cut short");
      }
      if (!shared_blocks_exist(capture.payload_words, payload + needed))
        fail(row, "its details refer to inputs that are not there");
    }
  }
  for (size_t i = 0; i < capture.foreign_row.size(); ++i) {
    if (capture.foreign_row[i] >= rows || capture.foreign_end_track[i] >= capture.tracks.size())
      raise<ValueError>("foreign_row " + std::to_string(i) + " names no row or no track");
  }
}

FASTPROF_NAMESPACE_END
