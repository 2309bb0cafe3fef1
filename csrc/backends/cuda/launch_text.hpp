// SPDX-License-Identifier: Apache-2.0
// Names and argument texts of CUDA activities, in the words of Kineto's traces.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/cupti_library.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Capacity of a device's multiprocessors; zeros if the driver does not report it.
struct DeviceLimits {
  int multiprocessors = 0;
  int max_threads = 0, max_blocks = 0, registers = 0, shared_bytes = 0;  // per multiprocessor
};
DeviceLimits limits_of(const CuptiLibrary& library, uint32_t device);

// Returns the number of blocks of this kernel that fit on one multiprocessor at a time; 0 if the
// limits are unknown. Registers are allocated per warp in units of 256, shared memory in units of 1
// KB plus 1 KB reserved per block (CUDA C++ Programming Guide, "Compute Capabilities"; the
// occupancy calculator).
int blocks_held(const KernelRecord& kernel, const DeviceLimits& limits);

// Returns a JSON object with the configuration of a launch, with the keys of Kineto's traces.
std::string launch_text(const KernelRecord& kernel, const DeviceLimits& limits);

// "Memcpy HtoD (Pageable -> Device)", "Memset (Device)", "Stream Wait Event".
std::string copy_name(uint8_t copy_kind, uint8_t from, uint8_t to);
std::string memset_name(uint16_t memory_kind);
std::string sync_name(uint32_t type);
std::string overhead_name(uint32_t kind);
// "Memory Allocation (Device)", "Memory Pool Trim", "Unified Memory HtoD".
std::string memory_operation_name(uint32_t operation, uint32_t memory_kind);
std::string pool_operation_name(uint32_t operation);
std::string unified_memory_name(uint32_t counter);

// Returns the name of a call without its version: "cudaLaunchKernel" for "cudaLaunchKernel_v7000".
std::string call_name(const CuptiLibrary& library, uint32_t domain, uint32_t cbid);

// Returns whether a call becomes a row. Of the runtime's calls, those that Kineto leaves out are
// left out, because programs make them constantly and they start nothing. Of the driver's calls,
// those that start work, which they link to its range, or that map memory become rows.
bool lists_call(uint32_t domain, const std::string& name);

}  // namespace cupti
FASTPROF_NAMESPACE_END
