// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: activities of NVIDIA's devices, collected by CUPTI's activity interface.
#pragma once

#include <string>
#include <vector>

#include "core/device_backend.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {

// Registers the backend "CUDA". Loads nothing. `libraries`: paths at which a libcupti may lie, such
// as those of NVIDIA's Python packages; the first call counts.
void register_cuda_backend(std::vector<std::string> libraries);

}  // namespace devices
FASTPROF_NAMESPACE_END
