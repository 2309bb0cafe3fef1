// SPDX-License-Identifier: Apache-2.0
// Lists the threads of this process: not needed on macOS, where native stacks are not sampled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

inline bool list_threads(std::vector<uint32_t>*) {
  return false;
}
inline std::string thread_name_of(uint32_t) {
  return {};
}

}  // namespace platform
FASTPROF_NAMESPACE_END
