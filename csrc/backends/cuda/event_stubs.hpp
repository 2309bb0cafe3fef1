// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler's support of CUDA: DeviceStubs that time ranges by events of CUDA or HIP.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/event_runtime.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

// Registers the stubs of DeviceStubsKind::CUDA, unless some are registered. Loads nothing before
// they are used. candidates: see load_runtime(). The first call counts. Any thread.
void register_event_stubs(const RuntimeVendor& vendor, std::vector<std::string> candidates);

}  // namespace cuda
FASTPROF_NAMESPACE_END
