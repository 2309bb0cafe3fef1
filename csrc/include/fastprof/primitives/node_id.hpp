// SPDX-License-Identifier: Apache-2.0
// The default node id: which node of a distributed program this process is.
#pragma once

#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/recorder/thread.hpp"

FASTPROF_NAMESPACE_BEGIN

// The process's node id, -1 while none was set. Any thread.
inline int64_t default_node_id() noexcept {
  return load_relaxed(&state()->node_id);
}

// Sets it for all threads; id >= 0, else ValueError.
inline void set_default_node_id(int64_t id) {
  if (id < 0) raise<ValueError>("a node id must be >= 0, not " + std::to_string(id));
  store_relaxed(&state()->node_id, id);
}

FASTPROF_NAMESPACE_END
