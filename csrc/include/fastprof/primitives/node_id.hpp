// SPDX-License-Identifier: Apache-2.0
// The default node id: identifies this process within a distributed program.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns the process's node id, or -1 if it is not set. Any thread.
inline int64_t default_node_id() noexcept {
  return load_relaxed(&state()->node_id);
}

FASTPROF_NAMESPACE_END
