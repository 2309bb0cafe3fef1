// SPDX-License-Identifier: Apache-2.0
// Converts CUPTI's records to Activities: see record_reader.hpp.
#include "backends/cuda/record_reader.hpp"

#include <algorithm>

#include "fastprof/capture/correlation_index.hpp"
#include "fastprof/primitives/device.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

// DeviceType.CUDA of PyTorch.
constexpr auto kCuda = static_cast<int16_t>(DeviceType::CUDA);

template <class Type>
const Type& as(const Record* record) {
  return *reinterpret_cast<const Type*>(record);
}

}  // namespace

void RecordReader::read(const FilledBuffer& buffer) {
  Record* record = nullptr;
  while (library_.next_record(buffer.memory.get(), buffer.valid_bytes, &record) ==
         result::success) {
    switch (record->kind) {
      case kind::concurrent_kernel:
        if ((kinds_ & listed::kernel) != 0) add_kernel(as<KernelRecord>(record));
        break;
      case kind::memcpy:
        if ((kinds_ & listed::memcpy) != 0) add_copy(as<MemcpyRecord>(record));
        break;
      case kind::memcpy2:
        if ((kinds_ & listed::memcpy) != 0) add_copy(as<PeerCopyRecord>(record));
        break;
      case kind::memset:
        if ((kinds_ & listed::memset) != 0) add_memset(as<MemsetRecord>(record));
        break;
      // With `kernel`, a whole graph stands for its nodes: another collection requested graphs as a
      // whole, which prevents CUPTI from recording nodes.
      case kind::graph_trace:
        if ((kinds_ & (listed::kernel | listed::graph)) != 0) add_graph(as<GraphRecord>(record));
        break;
      case kind::runtime:
        if ((kinds_ & listed::runtime) != 0)
          add_call(as<ApiRecord>(record), domain::runtime_api, "cuda_runtime");
        break;
      case kind::driver:
        if ((kinds_ & listed::driver) != 0)
          add_call(as<ApiRecord>(record), domain::driver_api, "cuda_driver");
        break;
      case kind::synchronization:
        if ((kinds_ & listed::sync) != 0) syncs_.push_back(as<SyncRecord>(record));
        break;
      case kind::cuda_event:
        if ((kinds_ & listed::sync) != 0) keep_event(as<CudaEventRecord>(record));
        break;
      case kind::memory2:
        if ((kinds_ & listed::memory) != 0) add_memory(as<MemoryRecord>(record));
        break;
      case kind::memory_pool:
        if ((kinds_ & listed::memory) != 0) add_pool(as<MemoryPoolRecord>(record));
        break;
      case kind::unified_memory:
        if ((kinds_ & listed::unified_memory) != 0) add_unified(as<UnifiedMemoryRecord>(record));
        break;
      case kind::marker:
        if ((kinds_ & listed::marker) != 0) keep_marker(as<MarkerRecord>(record));
        break;
      case kind::marker_data:
        if ((kinds_ & listed::marker) != 0) {
          const auto& data = as<MarkerDataRecord>(record);
          marker_data_[data.id] = {data.flags, data.payload_kind, data.payload, data.color,
                                   data.category};
        }
        break;
      case kind::overhead:
        if ((kinds_ & listed::overhead) != 0) add_overhead(as<OverheadRecord>(record));
        break;
      default:
        break;
    }
  }
}

void RecordReader::follow(const EarlierRecords& earlier) {
  context_devices_ = earlier.context_devices;
  for (const auto& [event, record] : earlier.events) events_[event].push_back(record);
  markers_ = earlier.open_markers;
  marker_data_ = earlier.marker_data;
}

EarlierRecords RecordReader::leave() {
  EarlierRecords left;
  left.context_devices = std::move(context_devices_);
  for (const auto& [event, records] : events_) left.events.emplace(event, records.back());
  left.open_markers = std::move(markers_);
  left.marker_data = std::move(marker_data_);
  return left;
}

Activities RecordReader::take(uint64_t& unplaced, uint64_t until) {
  for (auto& [event, records] : events_)
    std::sort(records.begin(), records.end(),
              [](const CudaEventRecord& a, const CudaEventRecord& b) {
                return a.correlation_id < b.correlation_id;
              });
  for (const SyncRecord& record : syncs_) add_sync(record);
  syncs_.clear();
  add_markers(until);
  reject_misplaced();
  unplaced = unplaced_;
  return std::move(found_);
}

// A correct conversion of the device's clock is off by some microseconds; a conversion of the wrong
// clock by years.
void RecordReader::reject_misplaced() {
  const auto tolerance = static_cast<uint64_t>(ticks_per_ns_ * 1e6);
  const auto is_call = [this](const Activity& row) {
    return found_.places[row.place].device_index < 0;
  };
  CorrelationIndex calls;  // -> row
  for (size_t i = 0; i < found_.rows.size(); ++i)
    if (found_.rows[i].correlation != 0 && is_call(found_.rows[i]))
      calls.add(found_.rows[i].correlation, static_cast<uint32_t>(i));
  calls.finish();
  const auto misplaced = [&](const Activity& row) {
    if (row.end > latest_ && row.end - latest_ > tolerance) return true;
    if (is_call(row) || row.correlation == 0) return false;
    const uint32_t call = calls.find(row.correlation);
    return call != CorrelationIndex::kNone && row.begin + tolerance < found_.rows[call].begin;
  };
  std::vector<uint8_t> wrong(found_.rows.size());
  for (size_t i = 0; i < found_.rows.size(); ++i) wrong[i] = misplaced(found_.rows[i]);
  size_t kept = 0;
  for (size_t i = 0; i < found_.rows.size(); ++i)
    if (!wrong[i]) found_.rows[kept++] = found_.rows[i];
  rejected_ = found_.rows.size() - kept;
  found_.rows.resize(kept);
}

uint32_t RecordReader::site_of(Shape shape, const char* category, const std::string& name,
                               uint32_t device) {
  const bool is_range = shape == Shape::range || shape == Shape::async_range;
  const bool is_async = shape == Shape::async_range;
  const auto [at, fresh] = sites_.try_emplace(
      std::to_string(device) + (is_async ? "async " : "") + category + '\0' + name,
      static_cast<uint32_t>(found_.sites.size()));
  if (!fresh) return at->second;
  SiteInfo site;
  site.name = name;
  site.category = category;
  site.kind = is_async ? EventKind::async_range : EventKind::range;
  site.mask = is_range               ? category::user
              : shape == Shape::call ? category::runtime
                                     : category::device;
  site.scope = is_range ? RecordScope::USER_SCOPE : RecordScope::FUNCTION;
  if (is_range) {
    found_.sites.push_back(std::move(site));
    return at->second;
  }
  const auto argument = [&site](const char* argument_name, ArgType type = ArgType::int64) {
    site.arg_names.emplace_back(argument_name);
    site.arg_types.push_back(type);
  };
  if (shape == Shape::call) {
    argument("cbid");
    argument("correlation");
  } else {
    site.device_type = kCuda;
    site.device_index = static_cast<int16_t>(device);
    argument("device");
    if (shape != Shape::unified) argument("context");
    argument("stream");
    if (shape != Shape::unified) argument("correlation");
  }
  if (shape == Shape::memory || shape == Shape::unified) argument("address", ArgType::pointer);
  if (shape == Shape::memory) {
    argument("bytes");
    argument("pool", ArgType::pointer);
  }
  if (shape == Shape::unified) argument("value");
  if (shape == Shape::transfer) {
    argument("bytes");
    argument("memory bandwidth (GB/s)", ArgType::float64);
  }
  if (shape == Shape::event) argument("event_id");
  if (shape == Shape::wait) {
    for (const char* each :
         {"wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id"})
      argument(each);
  }
  found_.sites.push_back(std::move(site));
  return at->second;
}

uint32_t RecordReader::place_of_queue(uint32_t device, uint32_t stream) {
  const uint64_t queue = uint64_t{device} << 32 | stream;
  if (queue == last_queue_) return last_queue_place_;
  const auto [at, fresh] = queues_.try_emplace(queue, static_cast<uint32_t>(found_.places.size()));
  last_queue_ = queue;
  last_queue_place_ = at->second;
  if (fresh) {
    ActivityPlace place;
    place.device_index = static_cast<int32_t>(device);
    place.id = stream;
    place.name = "stream " + std::to_string(stream);
    found_.places.push_back(std::move(place));
  }
  return at->second;
}

uint32_t RecordReader::place_of_thread(uint32_t thread) {
  const auto [at, fresh] =
      threads_.try_emplace(thread, static_cast<uint32_t>(found_.places.size()));
  if (fresh) {
    ActivityPlace place;
    place.id = thread;
    if (thread == 0) place.name = "CUPTI";
    found_.places.push_back(std::move(place));
  }
  return at->second;
}

uint32_t RecordReader::text_index(const std::string& text) {
  const auto [at, fresh] = texts_.try_emplace(text, static_cast<uint32_t>(found_.texts.size()));
  if (fresh) found_.texts.push_back(text);
  return at->second;
}

bool RecordReader::add(uint64_t start, uint64_t end, uint32_t correlation, uint32_t site,
                       uint32_t place, uint32_t text) {
  if (start == 0 || end == 0) {  // CUPTI_TIMESTAMP_UNKNOWN
    ++unplaced_;
    return false;
  }
  Activity activity;
  activity.begin = clock_.ticks_of(start);
  activity.end = std::max(activity.begin, clock_.ticks_of(end));
  activity.correlation = correlation;
  activity.site = site;
  activity.place = place;
  activity.text = text;
  activity.words = found_.words.size();
  found_.rows.push_back(activity);
  return true;
}

bool RecordReader::add_work(uint64_t start, uint64_t end, uint32_t device, uint32_t context,
                            uint32_t stream, uint32_t correlation, uint32_t site, uint32_t text) {
  if (!add(start, end, correlation, site, place_of_queue(device, stream), text)) return false;
  add_word(device);
  add_word(context);
  add_word(stream);
  add_word(correlation);
  return true;
}

void RecordReader::add_call(const ApiRecord& record, uint32_t domain, const char* category) {
  const auto [at, fresh] = calls_.try_emplace(uint64_t{domain} << 32 | record.cbid);
  if (fresh) {
    const std::string name = call_name(library_, domain, record.cbid);
    at->second.listed = lists_call(domain, name);
    if (at->second.listed) at->second.site = site_of(Shape::call, category, name);
  }
  if (!at->second.listed) return;
  if (!add(record.start, record.end, record.correlation_id, at->second.site,
           place_of_thread(record.thread_id)))
    return;
  add_word(record.cbid);
  add_word(record.correlation_id);
}

uint32_t RecordReader::device_of_context(uint32_t context) const {
  const auto at = context_devices_.find(context);
  return at == context_devices_.end() ? 0 : at->second;
}

void RecordReader::add_overhead(const OverheadRecord& record) {
  const uint32_t site = site_of(Shape::call, "overhead", overhead_name(record.overhead_kind));
  const uint32_t thread = record.object_kind == kObjectThread ? record.object[1] : 0;
  if (!add(record.start, record.end, 0, site, place_of_thread(thread))) return;
  add_word(record.overhead_kind);
  add_word(0);
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
