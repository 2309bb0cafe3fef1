// SPDX-License-Identifier: Apache-2.0
// AMD's GPUs as a device plug-in of our own: kernels, copies and calls of HIP, recorded by
// rocprofiler-sdk.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/device_plugin.h"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {

// Returns the plug-in's table, which lives as long as the process. Loads nothing before it is used.
// libraries: paths at which librocprofiler-sdk may lie; the first call counts. Any thread.
const fastprof_device_plugin& rocm_device(std::vector<std::string> libraries);

// Returns (name, JSON text) of the members of a trace that say which GPUs and versions there are,
// as Kineto writes them. Empty if no collection was possible. Call after rocm_device(). Any thread.
std::vector<std::pair<std::string, std::string>> rocm_members();

}  // namespace rocm
FASTPROF_NAMESPACE_END
