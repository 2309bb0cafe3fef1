// SPDX-License-Identifier: Apache-2.0
// Names and argument texts of CUDA activities, in the words of Kineto's traces.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/cupti_library.hpp"
#include "backends/cuda/occupancy.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Return JSON objects with the keys of Kineto's traces; transfer_text() returns an empty text if no
// key applies. version: CUPTI's, which determines the fields of a record.
// The configuration of a launch.
std::string launch_text(const KernelRecord& kernel, const DeviceLimits& limits, uint32_t version);
// The graph, the channel and the peers of a copy or fill.
std::string transfer_text(const MemcpyRecord& record, uint32_t version);
std::string transfer_text(const PeerCopyRecord& record, uint32_t version);
std::string transfer_text(const MemsetRecord& record, uint32_t version);
std::string graph_text(uint32_t graph);

// "CUDA graph 5": the row of a launch that is recorded as a whole.
std::string graph_name(uint32_t graph);
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

// Returns whether a call becomes a row. Omitted calls of the runtime are those that Kineto omits:
// programs make them constantly and they start no work. Calls of the driver become rows only if
// they start work, which they link to its range, or map memory.
bool lists_call(uint32_t domain, const std::string& name);

}  // namespace cupti
FASTPROF_NAMESPACE_END
