// SPDX-License-Identifier: Apache-2.0
// RecordReader: converts the records in CUPTI's buffers to Activities.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cuda/activity_buffers.hpp"
#include "backends/cuda/activity_kinds.hpp"
#include "backends/cuda/launch_text.hpp"
#include "fastprof/session/activities.hpp"
#include "fastprof/session/clock_line.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// A range or instant that the program has reported by NVTX, where NVTX's tool is CUPTI.
struct Marker {
  uint64_t timestamp = 0;
  uint32_t flags = 0, id = 0, thread = 0;
  std::string name, domain;
};
// Further attributes of a marker.
struct MarkerData {
  uint32_t flags = 0, payload_kind = 0;
  uint64_t payload = 0;
  uint32_t color = 0, category = 0;
};

// State that records of later buffers refer to, for a collection whose buffers are read in
// portions.
struct EarlierRecords {
  std::unordered_map<uint32_t, uint32_t> context_devices;
  // The last cudaEventRecord() of each event, by context and event.
  std::unordered_map<uint64_t, CudaEventRecord> events;
  // Begins of ranges that have not ended, and attributes of markers by id.
  std::vector<Marker> open_markers;
  std::unordered_map<uint32_t, MarkerData> marker_data;
};

// Reads buffers in any order. Records of different buffers need not be ordered in time either.
class RecordReader {
 public:
  // clock: converts CUPTI's stamps. kinds: bits of `listed`.
  RecordReader(const CuptiLibrary& library, const ClockLine& clock, double ticks_per_ns,
               uint32_t kinds)
      : library_(library), clock_(clock), ticks_per_ns_(ticks_per_ns), kinds_(kinds) {}

  // Makes take() drop rows that end after `latest`, or begin before the call that launched them;
  // see rejected(). latest: in ticks, read when the device's work had ended.
  void reject_after(uint64_t latest) { latest_ = latest; }
  // Number of rows dropped because of their times; call after take().
  uint64_t rejected() const noexcept { return rejected_; }

  void read(const FilledBuffer& buffer);

  // Continues after earlier portions. Call before the first read().
  void follow(const EarlierRecords& earlier);

  // Returns what was read; call once. `unplaced`: receives the number of records without
  // timestamps, which have no row. `until`: when the collection ended, in CUPTI's time, for ranges
  // that are open; 0 if it goes on.
  Activities take(uint64_t& unplaced, uint64_t until = 0);

  // Number of markers left out because they are fastprof's own ranges, emitted to NVTX; call after
  // take().
  uint64_t emitted_markers() const noexcept { return emitted_markers_; }

  // Returns the state for the reader of the next portion. Call after take().
  EarlierRecords leave();

 private:
  // The set of a row's arguments: of a call; of work; of work that moves bytes; of a wait for an
  // event; of a recorded event; of a memory operation; of a counter of managed memory. A range that
  // the program has reported has its arguments in its text; an async range overlaps others.
  enum class Shape : uint8_t {
    call,
    work,
    transfer,
    wait,
    event,
    memory,
    unified,
    range,
    async_range
  };

  // The fields that determine a kernel's site and text, in words, and the resulting site and text.
  // Programs launch the same few kernels repeatedly: known_kernels_ is a direct-mapped cache in
  // front of the maps.
  struct KernelKey {
    const char* name = nullptr;
    uint64_t words[10] = {};
    bool operator==(const KernelKey& other) const noexcept {
      return name == other.name && std::memcmp(words, other.words, sizeof words) == 0;
    }
  };
  struct KnownKernel {
    KernelKey key;
    uint32_t site = 0, text = 0;
    bool known = false;
  };
  KernelKey key_of(const KernelRecord& kernel) const noexcept;
  const KnownKernel& known_kernel(const KernelRecord& kernel);

  // Returns the index of the site with this name, of a call or of work on this device.
  uint32_t site_of(Shape shape, const char* category, const std::string& name, uint32_t device = 0);
  // As site_of(), by a key that determines the name: name() is called only for the first such row.
  template <class Name>
  uint32_t site_by_key(uint64_t key, Shape shape, const char* category, uint32_t device,
                       Name name) {
    const auto [at, fresh] = sites_by_key_.try_emplace(key, 0);
    if (fresh) at->second = site_of(shape, category, name(), device);
    return at->second;
  }
  uint32_t place_of_queue(uint32_t device, uint32_t stream);
  uint32_t place_of_thread(uint32_t thread);
  uint32_t text_of(const KernelRecord& kernel, const KernelKey& key);
  const DeviceLimits& limits(uint32_t device);
  const std::string& kernel_name(const char* mangled);
  uint32_t device_of_context(uint32_t context) const;

  // Appends a row. Returns false, with nothing appended, if the record has no timestamps.
  bool add(uint64_t start, uint64_t end, uint32_t correlation, uint32_t site, uint32_t place,
           uint32_t text = kNoPayload);
  void add_word(uint64_t word) { found_.words.push_back(word); }

  // As add(), for work: also appends its first arguments.
  bool add_work(uint64_t start, uint64_t end, uint32_t device, uint32_t context, uint32_t stream,
                uint32_t correlation, uint32_t site, uint32_t text = kNoPayload);

  void add_kernel(const KernelRecord& record);
  void add_graph(const GraphRecord& record);
  template <class Copy>
  void add_copy(const Copy& record);
  void add_memset(const MemsetRecord& record);
  // Adds a copy or a fill. key: determines its name, see site_by_key().
  template <class Transfer, class Name>
  void add_transfer(const Transfer& record, const char* category, uint32_t key, Name name);
  void add_call(const ApiRecord& record, uint32_t domain, const char* category);
  void add_sync(const SyncRecord& record);
  void keep_event(const CudaEventRecord& record);
  void add_event(const StampedEventRecord& record);
  void add_memory(const MemoryRecord& record);
  void add_pool(const MemoryPoolRecord& record);
  void add_unified(const UnifiedMemoryRecord& record);
  // Returns the last cudaEventRecord() of the event before a wait; null if unknown.
  const CudaEventRecord* recorded_event(const SyncRecord& wait) const;
  uint32_t text_index(const std::string& text);
  void keep_marker(const MarkerRecord& record);
  void add_markers(uint64_t until);
  void add_range(const Marker& begin, uint64_t end, bool overlaps);
  uint32_t text_of(const Marker& marker);
  void add_overhead(const OverheadRecord& record);

  void reject_misplaced();

  struct Call {
    uint32_t site;
    bool listed;
  };

  const CuptiLibrary& library_;
  const ClockLine clock_;
  const double ticks_per_ns_;
  const uint32_t kinds_;
  Activities found_;
  uint64_t unplaced_ = 0;
  uint64_t latest_ = ~uint64_t{0};
  uint64_t rejected_ = 0;
  std::unordered_map<std::string, uint32_t> sites_;
  std::unordered_map<uint64_t, uint32_t> sites_by_key_;
  std::unordered_map<uint64_t, uint32_t> kernel_sites_;  // by address of the name and device
  std::unordered_map<uint64_t, Call> calls_;             // by domain and cbid
  std::unordered_map<uint64_t, uint32_t> queues_;        // by device and stream
  std::unordered_map<uint32_t, uint32_t> threads_;
  std::unordered_map<uint32_t, uint32_t> context_devices_;
  std::unordered_map<std::string, uint32_t> texts_;  // by the fields that determine a text
  std::unordered_map<const char*, std::string> names_;
  std::unordered_map<uint32_t, DeviceLimits> limits_;
  std::array<KnownKernel, 256> known_kernels_;
  uint64_t last_queue_ = ~uint64_t{0};
  uint32_t last_queue_place_ = 0;
  uint32_t last_context_ = 0;  // CUPTI's numbers begin with 1
  std::vector<Marker> markers_;
  std::unordered_map<uint32_t, MarkerData> marker_data_;
  uint64_t emitted_markers_ = 0;
  std::vector<SyncRecord> syncs_;  // added last, when the devices of all contexts are known
  // By context and event; take() sorts each list by correlation.
  std::unordered_map<uint64_t, std::vector<CudaEventRecord>> events_;
};

}  // namespace cupti
FASTPROF_NAMESPACE_END
