// SPDX-License-Identifier: Apache-2.0
// SessionPropagation: how membership in thread-local sessions travels with a snapshot.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/local_sessions.hpp"

FASTPROF_NAMESPACE_BEGIN

// The recorder's seam in ThreadLocalState: save() on the thread that takes the snapshot, enter()
// and leave() around the work on the thread that runs it, in nesting order. Nothing throws.
struct SessionPropagation {
  using Membership = LocalSessions;
  using Stay = SessionStay;

  static Membership save() noexcept { return current_local_sessions(); }

  // Makes the calling thread record for `membership` too; give the result to leave().
  static Stay enter(const Membership& membership) noexcept { return enter_sessions(membership); }
  static void leave(const Stay& stay) noexcept { leave_sessions(stay); }
};

FASTPROF_NAMESPACE_END
