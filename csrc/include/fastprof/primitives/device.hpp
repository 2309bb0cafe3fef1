// SPDX-License-Identifier: Apache-2.0
// Device: where memory is allocated and work runs, with PyTorch's numbers.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Device type. The numbers are PyTorch's and are API; other numbers are passed through unchanged.
enum class DeviceType : int16_t {
  NONE = -1,
  CPU = 0,
  CUDA = 1,
  MKLDNN = 2,
  OPENGL = 3,
  OPENCL = 4,
  IDEEP = 5,
  HIP = 6,
  FPGA = 7,
  MAIA = 8,
  XLA = 9,
  VULKAN = 10,
  METAL = 11,
  XPU = 12,
  MPS = 13,
  META = 14,
  HPU = 15,
  VE = 16,
  LAZY = 17,
  IPU = 18,
  MTIA = 19,
  PRIVATEUSE1 = 20,
};

// A device type and index. Index -1 is the current device, or the only one.
struct Device {
  DeviceType type = DeviceType::CPU;
  int16_t index = -1;
};
constexpr bool operator==(Device a, Device b) noexcept {
  return a.type == b.type && a.index == b.index;
}
constexpr bool operator!=(Device a, Device b) noexcept {
  return !(a == b);
}

// Returns the lower-case name ("cpu", "cuda"), or "unknown" for an unlisted number. Static text.
constexpr const char* device_type_name(DeviceType type) noexcept {
  constexpr const char* names[] = {"cpu", "cuda", "mkldnn",       "opengl", "opencl", "ideep",
                                   "hip", "fpga", "maia",         "xla",    "vulkan", "metal",
                                   "xpu", "mps",  "meta",         "hpu",    "ve",     "lazy",
                                   "ipu", "mtia", "privateuseone"};
  const auto index = static_cast<int>(type);
  if (index == -1) return "none";
  return index >= 0 && index < static_cast<int>(sizeof names / sizeof *names) ? names[index]
                                                                              : "unknown";
}

FASTPROF_NAMESPACE_END
