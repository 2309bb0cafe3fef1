// SPDX-License-Identifier: Apache-2.0
// Members of a trace that describe the devices and NVIDIA's libraries.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Returns (name, JSON text) of the members that Kineto writes: deviceProperties, cupti_version,
// cuda_driver_version, cuda_runtime_version. Empty if libcupti or the driver's library is not
// loaded; loads nothing. libraries: as for load_cupti(). Any thread.
std::vector<std::pair<std::string, std::string>> device_members(
    const std::vector<std::string>& libraries);

}  // namespace cupti
FASTPROF_NAMESPACE_END
