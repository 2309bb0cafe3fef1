// SPDX-License-Identifier: Apache-2.0
// Setting the name of a thread's track: at most 63 bytes.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/file_slab.hpp"
#include "fastprof/recorder/state/lock.hpp"

FASTPROF_NAMESPACE_BEGIN

// Stores a name and a suffix (zero-terminated) as the track's name; cut at 63 bytes. State::lock
// held, or the track is not in use yet.
inline void set_track_text(Track* track, const char* name, size_t length,
                           const char* suffix) noexcept {
  constexpr size_t kMost = sizeof track->name - 1;
  if (length > kMost) length = kMost;
  if (length != 0) std::memcpy(track->name, name, length);  // an empty string_view may be null
  for (; *suffix != 0 && length < kMost; ++suffix) track->name[length++] = *suffix;
  track->name[length] = 0;
  track->name_length = static_cast<uint32_t>(length);
}

// Replaces the name that the kernel gave the track; at most 63 bytes are kept.
inline void set_track_name(State* s, Track* track, const char* name, size_t length) noexcept {
  StateLock hold(s);
  set_track_text(track, name, length, "");
  label_chunk(s, track);
}

FASTPROF_NAMESPACE_END
