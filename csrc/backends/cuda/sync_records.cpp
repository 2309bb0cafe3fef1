// SPDX-License-Identifier: Apache-2.0
// RecordReader's rows of recorded events, and of waits for streams, events and contexts, with what
// they waited for.
#include <algorithm>

#include "backends/cuda/record_reader.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

void RecordReader::keep_event(const CudaEventRecord& record) {
  events_[uint64_t{record.context_id} << 32 | record.event_id].push_back(record);
  if (library_.version >= api::cuda_12_9)
    add_event(reinterpret_cast<const StampedEventRecord&>(record));
}

// An event that was recorded has a row of 1 ns, as in Kineto's traces, if CUPTI has its time.
void RecordReader::add_event(const StampedEventRecord& record) {
  if (record.timestamp == 0) return;
  const CudaEventRecord& event = record.event;
  const uint32_t stream = event.stream_id == kNoStream ? 0 : event.stream_id;
  const uint32_t site = site_of(Shape::event, "cuda_event", "cudaEvent", record.device_id);
  if (!add_work(record.timestamp, record.timestamp, record.device_id, event.context_id, stream,
                event.correlation_id, site))
    return;
  add_word(event.event_id);
  found_.rows.back().end += static_cast<uint64_t>(ticks_per_ns_) + 1;
}

// A wait for an event names only the event. It refers to that event's last cudaEventRecord() before
// the wait: correlations grow with each call.
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
