// SPDX-License-Identifier: Apache-2.0
// The metal::Platform of this process: Apple's on macOS; elsewhere that of a library which an
// environment variable names, for tests.
#pragma once

#include <string>

#include "fastprof/metal/platform.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// Variable with the path of a library that exports
//   extern "C" void* fastprof_metal_platform(const char* version);
// which returns a Platform of this version of fastprof that lives as long as the process, or null.
constexpr const char* kPlatformVariable = "FASTPROF_METAL_LIBRARY";

// Returns the platform; null, with `reason` set, if there is none. A library is loaded once. Any
// thread.
Platform* find_platform(std::string& reason);

}  // namespace metal
FASTPROF_NAMESPACE_END
