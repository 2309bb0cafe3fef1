// SPDX-License-Identifier: Apache-2.0
// RecordReader's rows of work: kernels, copies, fills, and CUDA graphs that are recorded as a
// whole.
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "backends/cuda/record_reader.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

std::string demangled(const char* name) {
  if (name == nullptr || *name == 0) return "Kernel";
  if (name[0] != '_' || name[1] != 'Z')
    return name;  // __cxa_demangle() also decodes types: "a" is "signed char"
  int status = 1;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

}  // namespace

const DeviceLimits& RecordReader::limits(uint32_t device) {
  const auto [at, fresh] = limits_.try_emplace(device);
  if (fresh) at->second = limits_of(library_, device);
  return at->second;
}

const std::string& RecordReader::kernel_name(const char* mangled) {
  const auto [at, fresh] = names_.try_emplace(mangled);
  if (fresh) at->second = demangled(mangled);
  return at->second;
}

RecordReader::KernelKey RecordReader::key_of(const KernelRecord& kernel) const noexcept {
  const auto pair = [](auto a, auto b) {
    return uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b);
  };
  KernelKey key;
  key.name = kernel.name;
  key.words[0] = pair(kernel.device_id, kernel.registers_per_thread);
  key.words[1] = pair(kernel.grid_x, kernel.grid_y);
  key.words[2] = pair(kernel.grid_z, kernel.block_x);
  key.words[3] = pair(kernel.block_y, kernel.block_z);
  key.words[4] = pair(kernel.static_shared_memory, kernel.dynamic_shared_memory);
  key.words[5] = kernel.graph_node_id;
  key.words[6] = kernel.graph_id;
  key.words[7] = kernel.queued;
  if (library_.version >= api::cuda_11_8)
    key.words[8] = pair(kernel.channel_id, kernel.channel_type);
  if (library_.version >= api::cuda_13_1) key.words[9] = static_cast<uint32_t>(kernel.priority);
  return key;
}

uint32_t RecordReader::text_of(const KernelRecord& kernel, const KernelKey& key) {
  const auto [at, fresh] =
      texts_.try_emplace(std::string(reinterpret_cast<const char*>(key.words), sizeof key.words),
                         static_cast<uint32_t>(found_.texts.size()));
  if (fresh)
    found_.texts.push_back(launch_text(kernel, limits(kernel.device_id), library_.version));
  return at->second;
}

const RecordReader::KnownKernel& RecordReader::known_kernel(const KernelRecord& kernel) {
  const KernelKey key = key_of(kernel);
  uint64_t mixed = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(key.name));
  for (const uint64_t word : key.words) mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
  KnownKernel& known = known_kernels_[mixed >> 56];
  if (known.known && known.key == key) return known;
  const uint64_t by_name = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(kernel.name)) ^
                           uint64_t { kernel.device_id } << 56;
  const auto [at, fresh] = kernel_sites_.try_emplace(by_name, 0);
  if (fresh)
    at->second = site_of(Shape::work, "kernel", kernel_name(kernel.name), kernel.device_id);
  known.key = key;
  known.site = at->second;
  known.text = text_of(kernel, key);
  known.known = true;
  return known;
}

void RecordReader::add_kernel(const KernelRecord& record) {
  const KnownKernel& known = known_kernel(record);
  if (record.context_id != last_context_) {
    context_devices_.emplace(record.context_id, record.device_id);
    last_context_ = record.context_id;
  }
  add_work(record.start, record.end, record.device_id, record.context_id, record.stream_id,
           record.correlation_id, known.site, known.text);
}

template <class Copy>
void RecordReader::add_copy(const Copy& record) {
  const auto key = static_cast<uint32_t>(1 << 24 | record.copy_kind << 16 | record.src_kind << 8 |
                                         record.dst_kind);
  add_transfer(record, "gpu_memcpy", key,
               [&record] { return copy_name(record.copy_kind, record.src_kind, record.dst_kind); });
}

template <class Transfer, class Name>
void RecordReader::add_transfer(const Transfer& record, const char* category, uint32_t key,
                                Name name) {
  const uint32_t device = record.device_id;
  context_devices_.emplace(record.context_id, device);
  const uint32_t site =
      site_by_key(uint64_t{device} << 32 | key, Shape::transfer, category, device, name);
  const std::string text = transfer_text(record, library_.version);
  if (!add_work(record.start, record.end, device, record.context_id, record.stream_id,
                record.correlation_id, site, text.empty() ? kNoPayload : text_index(text)))
    return;
  add_word(record.bytes);
  const double ns =
      static_cast<double>(found_.rows.back().end - found_.rows.back().begin) / ticks_per_ns_;
  const double rate = ns > 0 ? static_cast<double>(record.bytes) / ns : 0;
  uint64_t bits;
  std::memcpy(&bits, &rate, sizeof bits);
  add_word(bits);
}

template void RecordReader::add_copy(const MemcpyRecord&);
template void RecordReader::add_copy(const PeerCopyRecord&);

void RecordReader::add_memset(const MemsetRecord& record) {
  add_transfer(record, "gpu_memset", record.memory_kind,
               [&record] { return memset_name(record.memory_kind); });
}

// A graph that begins with a node of the host has no device: its row is on device 0.
void RecordReader::add_graph(const GraphRecord& record) {
  const uint32_t device = record.device_id < 0x7FFFFFFFu ? record.device_id : 0;
  const uint32_t site = site_of(Shape::work, "kernel", graph_name(record.graph_id), device);
  add_work(record.start, record.end, device, record.context_id, record.stream_id,
           record.correlation_id, site, text_index(graph_text(record.graph_id)));
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
