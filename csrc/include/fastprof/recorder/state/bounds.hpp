// SPDX-License-Identifier: Apache-2.0
// The default memory bound of a session.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/process.hpp"

FASTPROF_NAMESPACE_BEGIN

// Default of a session's max_bytes: min(256 MB, 1/16 of the memory limit).
inline uint64_t default_max_bytes() noexcept {
  const uint64_t share = platform::memory_limit_bytes() / 16;
  constexpr uint64_t kMost = uint64_t{256} << 20;
  return share < kMost ? share : kMost;
}

FASTPROF_NAMESPACE_END
