// SPDX-License-Identifier: Apache-2.0
// What a forked child must renew: locks that another thread of the parent may have held.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// Registers the fork handler; later calls do nothing. Any thread.
void watch_forks() noexcept;

}  // namespace annotations
FASTPROF_NAMESPACE_END
