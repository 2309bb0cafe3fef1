// SPDX-License-Identifier: Apache-2.0
// SessionPropagation: propagates membership in thread-local sessions with a ThreadLocalState.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/hot_path/local_sessions.hpp"

FASTPROF_NAMESPACE_BEGIN

// Interface between ThreadLocalState and the recorder: save() on the thread that takes the
// snapshot, enter() and leave() around the work on the thread that runs it, properly nested.
// Nothing throws.
struct SessionPropagation {
  using Membership = LocalSessions;
  using Stay = SessionStay;

  static Membership save() noexcept { return current_local_sessions(); }

  // Adds the calling thread to the sessions of `membership`. Pass the result to leave().
  static Stay enter(const Membership& membership) noexcept { return enter_sessions(membership); }
  static void leave(const Stay& stay) noexcept { leave_sessions(stay); }
};

FASTPROF_NAMESPACE_END
