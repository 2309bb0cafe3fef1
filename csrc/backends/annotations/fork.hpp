// SPDX-License-Identifier: Apache-2.0
// Fork handlers of the annotations.
#pragma once

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace annotations {

// Registers the fork handlers; later calls do nothing. Call it before the first annotation. Any
// thread.
void watch_forks() noexcept;

}  // namespace annotations
FASTPROF_NAMESPACE_END
