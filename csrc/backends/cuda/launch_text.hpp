// SPDX-License-Identifier: Apache-2.0
// Texts of what was launched: arguments of a kernel, kinds of copies, names of calls.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/cupti_library.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// What a multiprocessor of a device can hold; zeros if the driver does not say.
struct DeviceLimits {
  int multiprocessors = 0;
  int max_threads = 0, max_blocks = 0, registers = 0, shared_bytes = 0;  // per multiprocessor
};
DeviceLimits limits_of(const CuptiLibrary& library, uint32_t device);

// Number of blocks of this kernel that one multiprocessor can hold at a time; 0 if the limits are
// not known. Registers are handed out by 256 for each warp, shared memory by 1 KB with 1 KB
// reserved for each block (CUDA C++ Programming Guide, "Compute Capabilities"; the occupancy
// calculator).
int blocks_held(const KernelRecord& kernel, const DeviceLimits& limits);

// JSON object with the configuration of a launch, in the names of Kineto's traces.
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

// The name of a call: "cudaLaunchKernel" for "cudaLaunchKernel_v7000".
std::string call_name(const CuptiLibrary& library, uint32_t domain, uint32_t cbid);

// Whether a call is listed. Calls of the runtime that programs make all the time and that start
// nothing are not; of those of the driver only launches are, since the runtime makes the others.
bool lists_call(uint32_t domain, const std::string& name);

}  // namespace cupti
FASTPROF_NAMESPACE_END
