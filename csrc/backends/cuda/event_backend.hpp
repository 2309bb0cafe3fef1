// SPDX-License-Identifier: Apache-2.0
// The backends "CUDA events" and "HIP events": time ranges on devices by events, where kernels
// cannot be recorded.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/event_runtime.hpp"
#include "core/device_backend.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// Registers a vendor's backend. Loads nothing. candidates: paths at which its runtime may lie; the
// first call counts.
void register_event_backend(const cuda::RuntimeVendor& vendor, std::vector<std::string> candidates);

}  // namespace devices
FASTPROF_NAMESPACE_END
