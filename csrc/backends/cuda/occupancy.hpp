// SPDX-License-Identifier: Apache-2.0
// Occupancy of a kernel: how many of its blocks a multiprocessor holds at a time, and what limits
// that number.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/cupti_library.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Capacity of a device; zeros if the driver does not report it.
struct DeviceLimits {
  int multiprocessors = 0;
  int max_threads = 0, max_blocks = 0, registers = 0, shared_bytes = 0;  // per multiprocessor
  int block_threads = 0, block_registers = 0, block_shared_bytes = 0;    // per block
  int block_shared_bytes_optin = 0, reserved_shared_bytes = 0;           // per block
  int capability_major = 0, capability_minor = 0;
};
DeviceLimits limits_of(const CuptiLibrary& library, uint32_t device);

// Blocks of a kernel per multiprocessor: `blocks`, the least of the four limits. No limit: INT_MAX.
struct Occupancy {
  int blocks = 0;
  int by_warps = 0, by_registers = 0, by_shared = 0, by_blocks = 0;
  int registers_per_block = 0, shared_bytes_per_block = 0;  // as the device allocates them

  // The limits that equal `blocks`: "WARPS|REGS|SMEM|BLOCKS".
  std::string limiting_factors() const;
};

// Returns the occupancy by the rules of NVIDIA's cuda_occupancy.h, for compute capability 5.0 and
// newer; zeros if the limits are unknown. A kernel that uses more shared memory than the default
// per block must have opted in, because it was launched. (Kineto reports 0 blocks for it.)
Occupancy occupancy_of(const KernelRecord& kernel, const DeviceLimits& limits);

}  // namespace cupti
FASTPROF_NAMESPACE_END
