// SPDX-License-Identifier: Apache-2.0
// Converts CUPTI's records to Activities: see record_reader.hpp.
#include "backends/cuda/record_reader.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fastprof/capture/correlation_index.hpp"
#include "fastprof/primitives/device.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

// DeviceType.CUDA of PyTorch.
constexpr auto kCuda = static_cast<int16_t>(DeviceType::CUDA);

std::string demangled(const char* name) {
  if (name == nullptr || *name == 0) return "Kernel";
  if (name[0] != '_' || name[1] != 'Z') return name;  // "a" would become "signed char"
  int status = 1;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

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
      case kind::memset: {
        const auto& set = as<MemsetRecord>(record);
        if ((kinds_ & listed::memset) != 0)
          add_transfer(set, "gpu_memset", set.memory_kind,
                       [&set] { return memset_name(set.memory_kind); });
        break;
      }
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
        if ((kinds_ & listed::sync) != 0) {
          const auto& event = as<CudaEventRecord>(record);
          events_[uint64_t{event.context_id} << 32 | event.event_id].push_back(event);
        }
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

// A conversion from the device's clock is off by microseconds at most, and one with another clock
// by years.
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

uint32_t RecordReader::text_index(const std::string& text) {
  const auto [at, fresh] = texts_.try_emplace(text, static_cast<uint32_t>(found_.texts.size()));
  if (fresh) found_.texts.push_back(text);
  return at->second;
}

RecordReader::KernelKey RecordReader::key_of(const KernelRecord& kernel) noexcept {
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
  return key;
}

uint32_t RecordReader::text_of(const KernelRecord& kernel, const KernelKey& key) {
  const auto [at, fresh] =
      texts_.try_emplace(std::string(reinterpret_cast<const char*>(key.words), sizeof key.words),
                         static_cast<uint32_t>(found_.texts.size()));
  if (fresh) found_.texts.push_back(launch_text(kernel, limits(kernel.device_id)));
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
  if (!add_work(record.start, record.end, device, record.context_id, record.stream_id,
                record.correlation_id, site))
    return;
  add_word(record.bytes);
  const double ns =
      static_cast<double>(found_.rows.back().end - found_.rows.back().begin) / ticks_per_ns_;
  const double rate = ns > 0 ? static_cast<double>(record.bytes) / ns : 0;
  uint64_t bits;
  std::memcpy(&bits, &rate, sizeof bits);
  add_word(bits);
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
