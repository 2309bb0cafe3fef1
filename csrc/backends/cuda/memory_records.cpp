// SPDX-License-Identifier: Apache-2.0
// RecordReader's rows of memory: allocations and releases by CUDA's functions, pools, and managed
// memory.
#include "backends/cuda/record_reader.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Operations are instants on the stream that they were ordered on, or on stream 0.
void RecordReader::add_memory(const MemoryRecord& record) {
  const bool ordered = record.is_async != 0 && record.stream_id != kNoStream;
  const uint32_t stream = ordered ? record.stream_id : 0;
  const uint32_t key = 2u << 24 | (record.operation & 0xFF) << 16 | (record.memory_kind & 0xFFFF);
  const uint32_t site = site_by_key(
      uint64_t{record.device_id} << 32 | key, Shape::memory, "gpu_memory", record.device_id,
      [&record] { return memory_operation_name(record.operation, record.memory_kind); });
  if (!add_work(record.timestamp, record.timestamp, record.device_id, record.context_id, stream,
                record.correlation_id, site))
    return;
  add_word(record.address);
  add_word(record.bytes);
  add_word(record.pool_type != 0 ? record.pool_address : 0);
}

void RecordReader::add_pool(const MemoryPoolRecord& record) {
  const uint32_t key = 3u << 24 | (record.operation & 0xFFFF);
  const uint32_t site =
      site_by_key(uint64_t{record.device_id} << 32 | key, Shape::memory, "gpu_memory",
                  record.device_id, [&record] { return pool_operation_name(record.operation); });
  if (!add_work(record.timestamp, record.timestamp, record.device_id, 0, 0, record.correlation_id,
                site))
    return;
  add_word(record.address);
  add_word(record.size);
  add_word(record.address);
}

// Counters of managed memory belong to the device that received, lost or missed the pages. A CPU
// page fault concerns no device and is listed on device 0. Instants have no end.
void RecordReader::add_unified(const UnifiedMemoryRecord& record) {
  const bool to_device = record.counter == unified::htod || record.counter == unified::remote_map;
  const uint32_t device = record.counter == unified::cpu_page_fault ? 0
                          : to_device                               ? record.dst_id
                                                                    : record.src_id;
  const uint32_t stream = record.stream_id == kNoStream ? 0 : record.stream_id;
  const uint32_t site = site_by_key(uint64_t{device} << 32 | 4u << 24 | (record.counter & 0xFFFF),
                                    Shape::unified, "unified_memory", device,
                                    [&record] { return unified_memory_name(record.counter); });
  const uint64_t end = record.end != 0 ? record.end : record.start;
  if (!add(record.start, end, 0, site, place_of_queue(device, stream))) return;
  add_word(device);
  add_word(stream);
  add_word(record.address);
  add_word(record.value);
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
