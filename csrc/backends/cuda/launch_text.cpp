// SPDX-License-Identifier: Apache-2.0
// Names and argument texts of CUDA activities: see launch_text.hpp.
#include "backends/cuda/launch_text.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

const char* memory_name(unsigned kind) {
  constexpr const char* names[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                   "Array",   "Managed",  "Device Static", "Managed Static"};
  return kind < std::size(names) ? names[kind] : "Unknown";
}

}  // namespace

namespace {

void add_member(std::string& text, const char* name, int64_t value) {
  text += text.empty() ? "{\"" : ",\"";
  text += name;
  text += "\":" + std::to_string(value);
}

// Kineto's members of an occupancy, in its order.
std::string occupancy_text(const Occupancy& of) {
  std::string text;
  add_member(text, "activeBlocksPerMultiprocessor", of.blocks);
  text += ",\"limitingFactors\":\"" + of.limiting_factors() + "\"";
  add_member(text, "blockLimitRegs", of.by_registers);
  add_member(text, "blockLimitSharedMem", of.by_shared);
  add_member(text, "blockLimitWarps", of.by_warps);
  add_member(text, "blockLimitBlocks", of.by_blocks);
  add_member(text, "allocatedRegistersPerBlock", of.registers_per_block);
  add_member(text, "allocatedSharedMemPerBlock", of.shared_bytes_per_block);
  return text + "}";
}

void add_triple(std::string& text, const char* name, int32_t a, int32_t b, int32_t c) {
  text += std::string(",\"") + name + "\":[" + std::to_string(a) + "," + std::to_string(b) + "," +
          std::to_string(c) + "]";
}

void add_graph(std::string& text, uint32_t graph, uint64_t node) {
  if (graph != 0) add_member(text, "graph id", graph);
  if (node != 0) add_member(text, "graph node id", static_cast<int64_t>(node));
}

void add_channel(std::string& text, uint32_t channel, uint32_t type) {
  add_member(text, "channel", channel);
  add_member(text, "channel_type", type);
}

template <class Transfer>
std::string transfer_members(std::string text, const Transfer& record, uint32_t version) {
  const bool has_all = version >= api::cuda_11_8;
  add_graph(text, has_all ? record.graph_id : 0, record.graph_node_id);
  if (has_all) add_channel(text, record.channel_id, record.channel_type);
  return text.empty() ? text : text + "}";
}

}  // namespace

std::string launch_text(const KernelRecord& kernel, const DeviceLimits& limits, uint32_t version) {
  std::string text;
  // 0 unless a client of CUPTI has enabled latency timestamps, as in Kineto's traces.
  add_member(text, "queued", static_cast<int64_t>(kernel.queued));
  add_member(text, "registers per thread", kernel.registers_per_thread);
  add_member(text, "shared memory",
             int64_t{kernel.static_shared_memory} + kernel.dynamic_shared_memory);
  const Occupancy occupancy = occupancy_of(kernel, limits);
  if (occupancy.blocks > 0 && limits.multiprocessors > 0) {
    const double blocks =
        static_cast<double>(kernel.grid_x) * kernel.grid_y * kernel.grid_z / limits.multiprocessors;
    const double threads = static_cast<double>(kernel.block_x) * kernel.block_y * kernel.block_z;
    const double resident = std::min<double>(blocks, occupancy.blocks);
    char numbers[160];
    std::snprintf(
        numbers, sizeof numbers,
        ",\"blocks per SM\":%.7g,\"warps per SM\":%.7g,\"est. achieved occupancy %%\":%.0f", blocks,
        blocks * threads / 32, std::min(1.0, resident * threads / limits.max_threads) * 100);
    text += numbers;
    text += ",\"occupancy\":" + occupancy_text(occupancy);
  }
  add_triple(text, "grid", kernel.grid_x, kernel.grid_y, kernel.grid_z);
  add_triple(text, "block", kernel.block_x, kernel.block_y, kernel.block_z);
  add_graph(text, kernel.graph_id, kernel.graph_node_id);
  if (version >= api::cuda_13_1) add_member(text, "priority", kernel.priority);
  if (version >= api::cuda_11_8) add_channel(text, kernel.channel_id, kernel.channel_type);
  return text + "}";
}

std::string transfer_text(const MemcpyRecord& record, uint32_t version) {
  return transfer_members({}, record, version);
}
std::string transfer_text(const MemsetRecord& record, uint32_t version) {
  return transfer_members({}, record, version);
}
std::string transfer_text(const PeerCopyRecord& record, uint32_t version) {
  std::string text;
  add_member(text, "fromDevice", record.src_device_id);
  add_member(text, "inDevice", record.device_id);
  add_member(text, "toDevice", record.dst_device_id);
  add_member(text, "fromContext", record.src_context_id);
  add_member(text, "inContext", record.context_id);
  add_member(text, "toContext", record.dst_context_id);
  return transfer_members(std::move(text), record, version);
}

std::string graph_name(uint32_t graph) {
  return "CUDA graph " + std::to_string(graph);
}
std::string graph_text(uint32_t graph) {
  return "{\"graph id\":" + std::to_string(graph) + "}";
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
