// SPDX-License-Identifier: Apache-2.0
// The backend "CUDA events": times ranges on CUDA devices by events, where CUPTI cannot be used.
#pragma once

#include <string>
#include <vector>

#include "core/device_backend.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// Registers the backend. Loads nothing. candidates: paths at which a libcudart may lie; the first
// call counts.
void register_event_backend(std::vector<std::string> candidates);

}  // namespace devices
FASTPROF_NAMESPACE_END
