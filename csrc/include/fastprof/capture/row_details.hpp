// SPDX-License-Identifier: Apache-2.0
// Locates the details of a captured row: they follow the payload words that its site defines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the number of payload words that precede the details of a row of this site.
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
    case EventKind::session_membership:
      return 0;
  }
  return 0;
}

// Input of for_each_block() (recorder/state/detail_blocks.hpp): a pointer to the DetailHeader, and
// the number of words from there to the end of payload_words.
struct RowDetails {
  const uint64_t* words = nullptr;
  size_t room = 0;
};

// Returns the details whose header is payload_words[at]; room is 0 if `at` is out of range.
inline RowDetails details_at(const Capture& capture, size_t at) noexcept {
  const size_t size = capture.payload_words.size();
  if (at >= size) return {};
  return {capture.payload_words.data() + at, size - at};
}

// Returns the details of a row; room is 0 if it has none. Every index is checked.
inline RowDetails details_of(const Capture& capture, size_t row) noexcept {
  if (row >= capture.size() || row >= capture.flags.size() || row >= capture.payload.size() ||
      row >= capture.site.size() || (capture.flags[row] & event_flag::detail) == 0 ||
      capture.payload[row] == kNoPayload || capture.site[row] >= capture.sites.size())
    return {};
  return details_at(capture,
                    capture.payload[row] + payload_words_of(capture.sites[capture.site[row]]));
}

FASTPROF_NAMESPACE_END
