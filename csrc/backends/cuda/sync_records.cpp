// SPDX-License-Identifier: Apache-2.0
// RecordReader's rows of waits for streams, events and contexts, and what they waited for.
#include <algorithm>

#include "backends/cuda/record_reader.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// A wait for an event names only the event. It waited for that event's last cudaEventRecord()
// before the wait: correlations grow with each call.
const CudaEventRecord* RecordReader::recorded_event(const SyncRecord& wait) const {
  const auto found = events_.find(uint64_t{wait.context_id} << 32 | wait.event_id);
  if (found == events_.end()) return nullptr;
  const std::vector<CudaEventRecord>& records = found->second;
  const auto after =
      std::partition_point(records.begin(), records.end(), [&wait](const CudaEventRecord& record) {
        return record.correlation_id < wait.correlation_id;
      });
  return after == records.begin() ? nullptr : &*(after - 1);
}

// Waits are rows of their stream; those of a context, of its stream 0.
void RecordReader::add_sync(const SyncRecord& record) {
  const uint32_t device = device_of_context(record.context_id);
  const uint32_t stream = record.stream_id == kNoStream ? 0 : record.stream_id;
  const bool for_event =
      record.type == synchronization::event || record.type == synchronization::stream_wait_event;
  const std::string kind = sync_name(record.type);
  const uint32_t site = site_of(for_event ? Shape::wait : Shape::work, "cuda_sync", kind, device);
  if (!add_work(record.start, record.end, device, record.context_id, stream, record.correlation_id,
                site, text_index("{\"cuda_sync_kind\":\"" + kind + "\"}")))
    return;
  if (!for_event) return;
  const CudaEventRecord* const event = recorded_event(record);
  constexpr uint64_t unknown = ~uint64_t{0};  // -1, as in Kineto's traces
  add_word(event != nullptr ? event->stream_id : unknown);
  add_word(event != nullptr ? event->correlation_id : unknown);
  add_word(record.event_id);
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
