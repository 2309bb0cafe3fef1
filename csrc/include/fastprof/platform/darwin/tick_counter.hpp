// SPDX-License-Identifier: Apache-2.0
// Whether the kernel has demoted the tick counter: never on Darwin, which has no other clock.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// On both architectures mach time is derived from the counter that raw_ticks() reads.
inline bool tick_counter_demoted() noexcept {
  return false;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
