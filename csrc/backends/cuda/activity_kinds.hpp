// SPDX-License-Identifier: Apache-2.0
// The kinds of CUPTI's records, and which of them a collection of some trace types needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cupti_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Kinds of records that a collection lists, as bits.
namespace listed {
constexpr uint32_t kernel = 1u << 0, memcpy = 1u << 1, memset = 1u << 2, runtime = 1u << 3,
                   driver = 1u << 4, sync = 1u << 5, overhead = 1u << 6, memory = 1u << 7,
                   unified_memory = 1u << 8, marker = 1u << 9, graph = 1u << 10;
}

// Trace types and the `listed` bits that they request. User annotations are derived from the work
// of a range.
inline constexpr std::pair<const char*, uint32_t> kTraceTypes[] = {
    {"kernel", listed::kernel},        {"concurrent_kernel", listed::kernel},
    {"gpu_memcpy", listed::memcpy},    {"gpu_memset", listed::memset},
    {"cuda_runtime", listed::runtime}, {"cuda_driver", listed::driver},
    {"cuda_sync", listed::sync},       {"overhead", listed::overhead},
    {"gpu_memory", listed::memory},    {"unified_memory", listed::unified_memory},
    {"cuda_graph", listed::graph}};
inline constexpr const char* kAnnotation = "gpu_user_annotation";

// CUPTI's kinds of records and their `listed` bits.
inline constexpr std::pair<uint32_t, uint32_t> kRecordKinds[] = {
    {kind::concurrent_kernel, listed::kernel}, {kind::memcpy, listed::memcpy},
    {kind::memcpy2, listed::memcpy},           {kind::memset, listed::memset},
    {kind::runtime, listed::runtime},          {kind::driver, listed::driver},
    {kind::synchronization, listed::sync},     {kind::cuda_event, listed::sync},
    {kind::overhead, listed::overhead},        {kind::marker, listed::marker},
    {kind::marker_data, listed::marker},       {kind::memory2, listed::memory},
    {kind::memory_pool, listed::memory},       {kind::unified_memory, listed::unified_memory},
    {kind::graph_trace, listed::graph}};

// Returns the name of a kind of records, for messages.
inline const char* kind_name(uint32_t activity) {
  switch (activity) {
    case kind::concurrent_kernel:
      return "kernels";
    case kind::memcpy:
      return "copies";
    case kind::memset:
      return "fills";
    case kind::runtime:
      return "calls of the runtime";
    case kind::driver:
      return "calls of the driver";
    case kind::synchronization:
    case kind::cuda_event:
      return "waits";
    case kind::memory2:
    case kind::memory_pool:
      return "allocations";
    case kind::unified_memory:
      return "pages of managed memory";
    case kind::marker:
      return "markers";
    case kind::graph_trace:
      return "launches of CUDA graphs";
    default:
      return "CUPTI's overheads";
  }
}

// Kinds of work that calls of the program start.
constexpr uint32_t kStartedWork = listed::kernel | listed::memcpy | listed::memset | listed::graph;

// Whether work is to be annotated with the ranges that launched it.
inline bool annotates(const std::vector<std::string>& types) {
  return std::find(types.begin(), types.end(), kAnnotation) != types.end();
}

// Returns the `listed` bits of the records that trace types need.
inline uint32_t kinds_of(const std::vector<std::string>& types) {
  uint32_t kinds = 0;
  for (const std::string& type : types)
    for (const auto& [name, bit] : kTraceTypes)
      if (type == name) kinds |= bit;
  if (annotates(types) && (kinds & kStartedWork) == 0) kinds |= listed::kernel;
  // The launching call links work to the range that contains it, so calls are needed as well.
  if ((kinds & kStartedWork) != 0) kinds |= listed::runtime | listed::driver;
  return kinds;
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
