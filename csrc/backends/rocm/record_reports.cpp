// SPDX-License-Identifier: Apache-2.0
// Conversion of rocprofiler-sdk's records to activities: see record_reports.hpp.
#include "backends/rocm/record_reports.hpp"

#include <algorithm>
#include <string>

FASTPROF_NAMESPACE_BEGIN
namespace rocm {
namespace {

struct Direction {
  const char *name, *ends;
};
Direction direction_of(int32_t operation) {
  switch (operation) {
    case copy::host_to_host:
      return {"HtoH", "Host -> Host"};
    case copy::host_to_device:
      return {"HtoD", "Host -> Device"};
    case copy::device_to_host:
      return {"DtoH", "Device -> Host"};
    case copy::device_to_device:
      return {"DtoD", "Device -> Device"};
    default:
      return {"<unknown>", "? -> ?"};
  }
}

uint64_t pair_of(uint32_t a, uint32_t b) {
  return uint64_t{a} << 32 | b;
}

// Work-items of the grid in workgroups, HIP's blocks.
std::string blocks(uint32_t grid, uint32_t workgroup) {
  return std::to_string(workgroup == 0 ? grid : (grid + workgroup - 1) / workgroup);
}

}  // namespace

void RecordReports::add(const Batch& batch) {
  for (const CallRecord& record : batch.calls)
    if (record.correlation.external == 0 || record.correlation.external >= begin_.ticks)
      add_call(record);  // without a stamp it is reported as a fault
  for (const KernelRecord& record : batch.kernels)
    if (record.end >= begin_.ns) add_kernel(record);
  for (const CopyRecord& record : batch.copies)
    if (record.end >= begin_.ns) add_copy(record);
}

void RecordReports::add_call(const CallRecord& record) {
  const uint32_t kind = kind_of(
      FASTPROF_ACTIVITY_CALL, static_cast<uint32_t>(record.operation), "cid", [&]() -> std::string {
        const char* name = nullptr;
        client_.library().operation_name(record.kind, record.operation, &name, nullptr);
        return name != nullptr ? name : "hip call " + std::to_string(record.operation);
      });
  // The begin is a stamp of the recorder's clock; the end has its distance.
  const auto ticks = static_cast<double>(record.end - record.start) * ticks_per_ns_;
  add_row(record.correlation.external, record.correlation.external + static_cast<uint64_t>(ticks),
          record.correlation.internal, kind, thread_of(record.thread_id), FASTPROF_NO_INDEX,
          static_cast<uint32_t>(record.operation));
}

void RecordReports::add_kernel(const KernelRecord& record) {
  const uint32_t kind = kind_of(FASTPROF_ACTIVITY_KERNEL, record.kernel_id, "hsa_queue",
                                [&] { return client_.kernel_name(record.kernel_id); });
  add_row(record.start, record.end, record.correlation.internal, kind,
          queue_of(std::max(client_.device_of(record.agent), 0), record.queue), launch_text(record),
          record.queue);
}

void RecordReports::add_copy(const CopyRecord& record) {
  const Direction direction = direction_of(record.operation);
  const uint32_t kind = kind_of(
      FASTPROF_ACTIVITY_COPY, static_cast<uint32_t>(record.operation), "bytes",
      [&] { return std::string("Memcpy ") + direction.name + " (" + direction.ends + ")"; });
  const auto [text, fresh] = copy_texts_.try_emplace(record.operation, 0);
  if (fresh)
    text->second =
        sink_.text(sink_.state,
                   ("{\"hsa_queue\":0,\"kind\":\"" + std::string(direction.name) + "\"}").c_str());
  // The copy engine has no queue: its copies are on queue 0 of the GPU, of the destination if both
  // are GPUs.
  const int32_t to = client_.device_of(record.destination);
  const int32_t device = std::max(to >= 0 ? to : client_.device_of(record.source), 0);
  add_row(record.start, record.end, record.correlation.internal, kind, queue_of(device, 0),
          text->second, record.bytes);
}

void RecordReports::add_row(uint64_t begin, uint64_t end, uint64_t correlation, uint32_t kind,
                            uint32_t place, uint32_t text, uint64_t argument) {
  fastprof_activity activity{};
  activity.begin = begin;
  activity.end = std::max(begin, end);
  activity.correlation = static_cast<uint32_t>(correlation);
  activity.kind = kind;
  activity.place = place;
  activity.text = text;
  activity.arguments = &argument;
  sink_.add(sink_.state, &activity, 1);
}

uint32_t RecordReports::queue_of(int32_t device, uint64_t queue) {
  const auto [at, fresh] = places_.try_emplace({device, queue}, 0);
  if (fresh)
    at->second = sink_.queue(sink_.state, device, static_cast<int64_t>(queue),
                             ("stream " + std::to_string(queue)).c_str());
  return at->second;
}

uint32_t RecordReports::thread_of(uint64_t thread_id) {
  const auto [at, fresh] = places_.try_emplace({-1, thread_id}, 0);
  if (fresh) at->second = sink_.thread(sink_.state, static_cast<int64_t>(thread_id), nullptr);
  return at->second;
}

template <class Name>
uint32_t RecordReports::kind_of(uint32_t type, uint64_t number, const char* argument, Name name) {
  const auto [at, fresh] = kinds_.try_emplace({type, number}, 0);
  if (fresh) {
    const std::string text = name();
    const uint8_t argument_type = FASTPROF_ARGUMENT_INT64;
    const fastprof_activity_kind kind = {sizeof kind, type,      text.c_str(),
                                         1,           &argument, &argument_type};
    at->second = sink_.kind(sink_.state, &kind);
  }
  return at->second;
}

uint32_t RecordReports::launch_text(const KernelRecord& record) {
  const Dim3 &grid = record.grid, &block = record.workgroup;
  const auto [at, fresh] =
      launches_.try_emplace({pair_of(grid.x, block.x), pair_of(grid.y, block.y),
                             pair_of(grid.z, block.z), record.group_segment_bytes},
                            0);
  if (fresh) {
    const std::string text =
        "{\"kind\":\"Dispatch Kernel\",\"grid\":[" + blocks(grid.x, block.x) + "," +
        blocks(grid.y, block.y) + "," + blocks(grid.z, block.z) + "],\"block\":[" +
        std::to_string(block.x) + "," + std::to_string(block.y) + "," + std::to_string(block.z) +
        "],\"shared memory\":" + std::to_string(record.group_segment_bytes) + "}";
    at->second = sink_.text(sink_.state, text.c_str());
  }
  return at->second;
}

}  // namespace rocm
FASTPROF_NAMESPACE_END
