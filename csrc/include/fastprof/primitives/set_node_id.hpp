// SPDX-License-Identifier: Apache-2.0
// Sets the default node id.
#pragma once

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Sets the default node id of the process. Any thread. Raises ValueError if id < 0.
inline void set_default_node_id(int64_t id) {
  if (id < 0) raise<ValueError>("a node id must be >= 0, not " + std::to_string(id));
  store_relaxed(&state()->node_id, id);
}

inline void RecordFunction::set_default_node_id(int64_t id) {
  fastprof::set_default_node_id(id);
}

FASTPROF_NAMESPACE_END
