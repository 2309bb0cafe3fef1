// SPDX-License-Identifier: Apache-2.0
// Setting the default node id.
#pragma once

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/recorder/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Sets it for all threads; id >= 0, else ValueError.
inline void set_default_node_id(int64_t id) {
  if (id < 0) raise<ValueError>("a node id must be >= 0, not " + std::to_string(id));
  store_relaxed(&state()->node_id, id);
}

inline void RecordFunction::set_default_node_id(int64_t id) {
  fastprof::set_default_node_id(id);
}

FASTPROF_NAMESPACE_END
