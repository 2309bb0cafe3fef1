// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler's support of CUDA: DeviceStubs that time ranges by CUDA events.
#pragma once

#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

// Registers the stubs of DeviceStubsKind::CUDA, unless some are registered. Loads nothing before
// they are used. candidates: see load_cudart(); those of the first call count. Any thread.
void register_event_stubs(std::vector<std::string> candidates);

}  // namespace cuda
FASTPROF_NAMESPACE_END
