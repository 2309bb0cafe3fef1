// SPDX-License-Identifier: Apache-2.0
// Names and argument texts of CUDA activities: see launch_text.hpp.
#include "backends/cuda/launch_text.hpp"

#include <algorithm>
#include <cstdio>

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

// CUdevice_attribute.
constexpr int kMultiprocessors = 16, kThreadsPerMultiprocessor = 39, kSharedPerMultiprocessor = 81,
              kRegistersPerMultiprocessor = 82, kBlocksPerMultiprocessor = 106;
constexpr int kWarp = 32;

int64_t up_to(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

const char* memory_name(unsigned kind) {
  constexpr const char* names[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                   "Array",   "Managed",  "Device Static", "Managed Static"};
  return kind < std::size(names) ? names[kind] : "Unknown";
}

}  // namespace

DeviceLimits limits_of(const CuptiLibrary& library, uint32_t device) {
  DeviceLimits limits;
  if (library.driver.device_attribute == nullptr) return limits;
  const auto ask = [&](int attribute) {
    int value = 0;
    const int code = library.driver.device_attribute(&value, attribute, static_cast<int>(device));
    return code == 0 ? value : 0;
  };
  limits.multiprocessors = ask(kMultiprocessors);
  limits.max_threads = ask(kThreadsPerMultiprocessor);
  limits.max_blocks = ask(kBlocksPerMultiprocessor);
  limits.registers = ask(kRegistersPerMultiprocessor);
  limits.shared_bytes = ask(kSharedPerMultiprocessor);
  return limits;
}

int blocks_held(const KernelRecord& kernel, const DeviceLimits& limits) {
  const int64_t threads =
      int64_t{kernel.block_x} * std::max(kernel.block_y, 1) * std::max(kernel.block_z, 1);
  if (threads <= 0 || limits.max_threads <= 0) return 0;
  const int64_t warps = (threads + kWarp - 1) / kWarp;
  int64_t blocks = limits.max_threads / (warps * kWarp);
  if (limits.max_blocks > 0) blocks = std::min<int64_t>(blocks, limits.max_blocks);
  const int64_t registers = up_to(int64_t{kernel.registers_per_thread} * kWarp, 256) * warps;
  if (limits.registers > 0 && registers > 0)
    blocks = std::min(blocks, limits.registers / registers);
  const int64_t shared =
      up_to(int64_t{kernel.static_shared_memory} + kernel.dynamic_shared_memory, 1024) + 1024;
  if (limits.shared_bytes > 0) blocks = std::min(blocks, limits.shared_bytes / shared);
  return static_cast<int>(blocks);
}

std::string launch_text(const KernelRecord& kernel, const DeviceLimits& limits) {
  const auto triple = [](const char* name, int32_t a, int32_t b, int32_t c) {
    return std::string("\"") + name + "\":[" + std::to_string(a) + "," + std::to_string(b) + "," +
           std::to_string(c) + "]";
  };
  // 0 unless a client of CUPTI has enabled latency timestamps, as in Kineto's traces.
  std::string text = "{\"queued\":" + std::to_string(kernel.queued);
  text += ",\"registers per thread\":" + std::to_string(kernel.registers_per_thread);
  text += ",\"shared memory\":" +
          std::to_string(int64_t{kernel.static_shared_memory} + kernel.dynamic_shared_memory);
  if (limits.multiprocessors > 0 && limits.max_threads > 0) {
    const double blocks =
        static_cast<double>(kernel.grid_x) * kernel.grid_y * kernel.grid_z / limits.multiprocessors;
    const double threads = static_cast<double>(kernel.block_x) * kernel.block_y * kernel.block_z;
    const double resident = std::min<double>(blocks, blocks_held(kernel, limits));
    const double occupancy = std::min(1.0, resident * threads / limits.max_threads);
    char numbers[160];
    std::snprintf(
        numbers, sizeof numbers,
        ",\"blocks per SM\":%.6g,\"warps per SM\":%.6g,\"est. achieved occupancy %%\":%.0f", blocks,
        blocks * threads / kWarp, occupancy * 100);
    text += numbers;
  }
  text += "," + triple("grid", kernel.grid_x, kernel.grid_y, kernel.grid_z);
  text += "," + triple("block", kernel.block_x, kernel.block_y, kernel.block_z);
  if (kernel.graph_id != 0) text += ",\"graph id\":" + std::to_string(kernel.graph_id);
  if (kernel.graph_node_id != 0)
    text += ",\"graph node id\":" + std::to_string(kernel.graph_node_id);
  return text + "}";
}

std::string copy_name(uint8_t copy_kind, uint8_t from, uint8_t to) {
  constexpr const char* kinds[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                   "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  const char* const kind = copy_kind < std::size(kinds) ? kinds[copy_kind] : "Unknown";
  return std::string("Memcpy ") + kind + " (" + memory_name(from) + " -> " + memory_name(to) + ")";
}

std::string memset_name(uint16_t memory_kind) {
  return std::string("Memset (") + memory_name(memory_kind) + ")";
}

std::string sync_name(uint32_t type) {
  constexpr const char* names[] = {"Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync",
                                   "Context Sync"};
  return names[type < std::size(names) ? type : 0];
}

std::string overhead_name(uint32_t kind) {
  constexpr const char* names[] = {"Unknown",
                                   "Activity Buffer Flush",
                                   "Instrumentation",
                                   "Resource",
                                   "Runtime Triggered Module Loading",
                                   "Lazy Function Loading",
                                   "Command Buffer Full",
                                   "Activity Buffer Request",
                                   "UVM Activity Init"};
  if (kind == 1) return "Driver Compiler";
  const uint32_t index = kind >> 16;
  return names[index < std::size(names) ? index : 0];
}

std::string memory_operation_name(uint32_t operation, uint32_t memory_kind) {
  const char* const verb = operation == 1 ? "Allocation" : operation == 2 ? "Release" : "Operation";
  return std::string("Memory ") + verb + " (" + memory_name(memory_kind) + ")";
}

std::string pool_operation_name(uint32_t operation) {
  constexpr const char* names[] = {"Operation", "Creation", "Destruction", "Trim"};
  return std::string("Memory Pool ") + names[operation < std::size(names) ? operation : 0];
}

std::string unified_memory_name(uint32_t counter) {
  constexpr const char* names[] = {"Counter",         "HtoD",           "DtoH",
                                   "CPU Page Faults", "GPU Page Fault", "Thrashing",
                                   "Throttling",      "Remote Map",     "DtoD"};
  return std::string("Unified Memory ") + names[counter < std::size(names) ? counter : 0];
}

std::string call_name(const CuptiLibrary& library, uint32_t domain, uint32_t cbid) {
  const char* text = nullptr;
  if (library.callback_name == nullptr ||
      library.callback_name(domain, cbid, &text) != result::success || text == nullptr)
    return (domain == domain::driver_api ? "driver call " : "runtime call ") + std::to_string(cbid);
  std::string name = text;
  const size_t version = name.rfind("_v");
  if (version != std::string::npos && version + 2 < name.size() &&
      name.find_first_not_of("0123456789", version + 2) == std::string::npos)
    name.resize(version);
  return name;
}

bool lists_call(uint32_t domain, const std::string& name) {
  if (domain == domain::driver_api) {
    for (const char* begin :
         {"cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset", "cuMemCreate", "cuMemMap",
          "cuMemUnmap", "cuMemRelease", "cuMemExport", "cuMemImport"})
      if (name.compare(0, std::string(begin).size(), begin) == 0) return true;
    return false;
  }
  for (const char* quiet : {"cudaGetDevice", "cudaSetDevice", "cudaGetLastError", "cudaEventCreate",
                            "cudaEventCreateWithFlags", "cudaEventDestroy"})
    if (name == quiet) return false;
  return true;
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
