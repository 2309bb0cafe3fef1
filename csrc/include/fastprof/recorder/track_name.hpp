// SPDX-License-Identifier: Apache-2.0
// The name of a thread's track: at most 63 bytes.
#pragma once

#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/lock.hpp"

FASTPROF_NAMESPACE_BEGIN

inline void set_track_text(Track* track, const char* name, size_t length,
                           const char* suffix) noexcept {
  constexpr size_t kMost = sizeof track->name - 1;
  if (length > kMost) length = kMost;
  std::memcpy(track->name, name, length);
  for (; *suffix != 0 && length < kMost; ++suffix) track->name[length++] = *suffix;
  track->name[length] = 0;
  track->name_length = static_cast<uint32_t>(length);
}

// Names the calling thread's track from now on (at most 63 bytes are kept), whatever the kernel
// calls it.
inline void set_track_name(State* s, Track* track, const char* name, size_t length) noexcept {
  StateLock hold(s);
  set_track_text(track, name, length, "");
}

FASTPROF_NAMESPACE_END
