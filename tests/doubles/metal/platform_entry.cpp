// SPDX-License-Identifier: Apache-2.0
// What FASTPROF_METAL_LIBRARY names: the backend on the double of Apple's frameworks, as a library.
#include <cstring>

#include "backends/metal/metal_platform.hpp"

extern "C" __attribute__((visibility("default"))) void* fastprof_metal_platform(
    const char* version) {
  if (std::strcmp(version, FASTPROF_VERSION_STRING) != 0) return nullptr;
  return &fastprof::metal::metal_platform();
}
