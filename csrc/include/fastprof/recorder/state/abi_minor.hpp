// SPDX-License-Identifier: Apache-2.0
// Rules of binary compatibility: what an ABI minor may add, and which leader a library can follow.
//
// One process may contain libraries built a year apart. Within an ABI major no field moves or
// changes its size or meaning. A new minor may add only where older libraries do not look:
//   a field         in `reserved` of State, Track, SessionSlot or Chunk. Older libraries neither
//                   write nor read it, so 0 must mean "not set". Each session start zeroes those of
//                   its SessionSlot, whichever library starts it.
//   a function      at the end of RecorderFunctions; callers check leader_has() and do without it.
//   a drop cause    the next one below kMaxDropCauses; older libraries print its number.
//   a category      a free bit below custom0 (scope.hpp); a mask bit: a free one of 24 to 27.
//   a detail block  a new DetailType; older readers skip unknown types.
// The rest of a record's format (SiteKind, ArgType, RecordTag, the layout of Slot and Site) is read
// by sessions of older libraries, so it changes only with the major.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Whether this library can record into `leader` (of the same major): the leader's State is at least
// as large as ours, so that every field we use exists. The rules above guarantee it; a library for
// which it fails uses a recorder of its own.
inline bool can_follow(const State& leader) noexcept {
  return leader.size_bytes >= sizeof(State);
}

// Whether the elected State and its RecorderFunctions have what was added in this minor.
inline bool leader_has(const State* leader, uint16_t minor) noexcept {
  return leader->abi_minor >= minor;
}

FASTPROF_NAMESPACE_END
