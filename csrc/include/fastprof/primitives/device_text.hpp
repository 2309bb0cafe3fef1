// SPDX-License-Identifier: Apache-2.0
// Formats a Device as text.
#pragma once

#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/device.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns "cuda:0", or "cpu" for a device without an index.
inline std::string to_string(Device device) {
  std::string text = device_type_name(device.type);
  if (device.index >= 0) text += ":" + std::to_string(device.index);
  return text;
}

FASTPROF_NAMESPACE_END
