// SPDX-License-Identifier: Apache-2.0
// What libraries of one ABI major share, byte by byte, and what a minor may add to it.
//
// One process may hold libraries built a year apart. Within a major no field moves, changes its
// size or its meaning. A new minor may only add, where the older ones do not look:
//   a field         into `reserved` of State, Track, SessionSlot or Chunk. Who was built before
//                   neither writes nor reads it: it must mean nothing while it is 0. A start zeroes
//                   those of its SessionSlot, whichever library starts.
//   a function      at the end of RecorderFunctions; callers ask leader_has() first and do without.
//   a drop cause    the next one below kMaxDropCauses; older libraries show it by its number.
//   a category      a free bit below custom0 (scope.hpp); a mask bit: a free one of 24 to 27.
//   a detail block  a new DetailType; older readers pass over what they do not know.
// Whatever else a record is made of (SiteKind, ArgType, RecordTag, the layout of Slot and Site) is
// read by the sessions of older libraries and changes with the major only.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Whether this library can record into `leader`, of its major: nothing that we use lies behind its
// end. By the rule above it never does; who broke the rule has a recorder of its own.
inline bool can_follow(const State& leader) noexcept {
  return leader.size_bytes >= sizeof(State);
}

// Whether the elected State, its functions among it, has what came with this minor.
inline bool leader_has(const State* leader, uint16_t minor) noexcept {
  return leader->abi_minor >= minor;
}

FASTPROF_NAMESPACE_END
