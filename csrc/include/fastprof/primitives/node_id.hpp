// SPDX-License-Identifier: Apache-2.0
// The default node id: which node of a distributed program this process is.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// The process's node id, -1 while none was set. Any thread.
inline int64_t default_node_id() noexcept {
  return load_relaxed(&state()->node_id);
}

FASTPROF_NAMESPACE_END
