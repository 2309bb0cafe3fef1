// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: one subscription to CUPTI serves all collections of the process. It begins with
// the first and ends with the last of them, so that nothing is instrumented while no collection is
// open.
#include "backends/cuda/cuda_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "backends/cuda/queue_names.hpp"
#include "backends/cuda/record_reader.hpp"
#include "core/named_objects.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {
namespace {

using cupti::ActivityBuffers;
using cupti::CuptiLibrary;
using cupti::SharedBuffer;
namespace listed = cupti::listed;
namespace kind = cupti::kind;
namespace result = cupti::result;

// Bound of the records that have not been read yet, in bytes: FASTPROF_CUPTI_MAX_BYTES, or 1 GB.
uint64_t max_bytes() {
  const char* const text = std::getenv("FASTPROF_CUPTI_MAX_BYTES");
  const uint64_t chosen = text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
  return chosen != 0 ? chosen : uint64_t{1} << 30;
}

// Trace types and the `listed` bits that they request. User annotations are derived from the work
// of a range.
constexpr std::pair<const char*, uint32_t> kTypes[] = {
    {"kernel", listed::kernel},        {"concurrent_kernel", listed::kernel},
    {"gpu_memcpy", listed::memcpy},    {"gpu_memset", listed::memset},
    {"cuda_runtime", listed::runtime}, {"cuda_driver", listed::driver},
    {"cuda_sync", listed::sync},       {"overhead", listed::overhead},
    {"gpu_memory", listed::memory},    {"unified_memory", listed::unified_memory}};
constexpr const char* kAnnotation = "gpu_user_annotation";

// CUPTI's kinds of records and their `listed` bits.
constexpr std::pair<uint32_t, uint32_t> kKinds[] = {
    {kind::concurrent_kernel, listed::kernel}, {kind::memcpy, listed::memcpy},
    {kind::memcpy2, listed::memcpy},           {kind::memset, listed::memset},
    {kind::runtime, listed::runtime},          {kind::driver, listed::driver},
    {kind::synchronization, listed::sync},     {kind::cuda_event, listed::sync},
    {kind::overhead, listed::overhead},        {kind::marker, listed::marker},
    {kind::marker_data, listed::marker},       {kind::memory2, listed::memory},
    {kind::memory_pool, listed::memory},       {kind::unified_memory, listed::unified_memory}};

bool annotates(const std::vector<std::string>& types) {
  return std::find(types.begin(), types.end(), kAnnotation) != types.end();
}

uint32_t kinds_of(const std::vector<std::string>& types) {
  uint32_t kinds = 0;
  for (const std::string& type : types)
    for (const auto& [name, bit] : kTypes)
      if (type == name) kinds |= bit;
  if (annotates(types) && (kinds & (listed::kernel | listed::memcpy | listed::memset)) == 0)
    kinds |= listed::kernel;
  // The launching call links work to the range that contains it, so calls are needed as well.
  if ((kinds & (listed::kernel | listed::memcpy | listed::memset)) != 0)
    kinds |= listed::runtime | listed::driver;
  return kinds;
}

// Whether NVTX hands the program's ranges to CUPTI, which makes markers of them. Each copy of NVTX
// has one tool: with fastprof's injection library there are no markers.
bool nvtx_reaches_cupti() {
  const char* const path = std::getenv(kNvtxVariable);
  return path != nullptr && std::string(path).find("libcupti") != std::string::npos;
}

class CudaBackend final : public DeviceBackend {
 public:
  explicit CudaBackend(std::vector<std::string> libraries)
      : libraries_(std::move(libraries)), buffers_(max_bytes()) {
    only_ = this;
  }

  std::string name() const override { return "CUDA"; }

  std::string problem() override {
    if (in_forked_child()) return kForked;
    const std::lock_guard<std::mutex> hold(lock_);
    if (!collections_.empty()) return {};
    std::string reason;
    if (!subscribe(reason)) return reason;
    unsubscribe();
    return {};
  }

  uint64_t begin(const CollectionRequest& request) override {
    if (in_forked_child()) raise<UnavailableError>(kForked);
    const std::lock_guard<std::mutex> hold(lock_);
    std::string reason;
    if (collections_.empty() && !subscribe(reason))
      raise<UnavailableError>("work on CUDA devices cannot be collected: " + reason);
    deliver();  // what was recorded before belongs to the other collections
    Collection collection;
    collection.kinds = kinds_of(request.types);
    if ((collection.kinds & listed::runtime) != 0 && nvtx_reaches_cupti())
      collection.kinds |= listed::marker;
    collection.annotates = annotates(request.types);
    collection.dropped_before = count_dropped();
    collection.refused_before = count_refused();
    collection.begin = clocks();
    collection.begin_ns = platform::monotonic_ns();
    enable(collection);
    const uint64_t number = ++last_;
    collections_.emplace(number, std::move(collection));
    return number;
  }

  Activities end(uint64_t number, std::vector<std::string>& problems) override {
    if (in_forked_child()) raise<StateError>("this collection belongs to the parent process");
    Portion portion;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      const auto at = collections_.find(number);
      if (at == collections_.end())
        raise<StateError>("this collection of CUDA activities has ended already");
      // Complete the driver's work first: records of unfinished work are not in any buffer.
      if (library_->context_synchronize != nullptr) library_->context_synchronize();
      check(library_->flush_all(cupti::kFlushForced), "the records could not be flushed", problems);
      deliver();
      if (!kernel_thread_ids_)
        problems.push_back(
            "CUPTI does not number threads as the kernel does: work is not linked to ranges");
      take_portion(at->second, portion);
      problems.insert(problems.end(), at->second.problems.begin(), at->second.problems.end());
      collections_.erase(at);
      if (collections_.empty()) {
        unsubscribe();
      } else {
        disable_unused();
      }
    }
    return read(portion, problems, true);
  }

  Activities collect_so_far(uint64_t number, std::vector<std::string>& problems) override {
    if (in_forked_child()) return {};
    Portion portion;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      const auto at = collections_.find(number);
      if (at == collections_.end()) return {};
      // Not forced: a buffer with an incomplete record stays with CUPTI; a forced flush would lose
      // the record.
      check(library_->flush_all(0), "the records could not be flushed", problems);
      deliver();
      take_portion(at->second, portion);
    }
    Activities found = read(portion, problems, false);
    const std::lock_guard<std::mutex> hold(lock_);
    const auto at = collections_.find(number);
    if (at != collections_.end()) at->second.earlier = std::move(portion.earlier);
    return found;
  }

  bool is_full(uint64_t number) override {
    if (in_forked_child()) return false;
    const std::lock_guard<std::mutex> hold(lock_);
    const auto at = collections_.find(number);
    return at != collections_.end() && count_refused() != at->second.refused_before;
  }

  void abandon(uint64_t number) noexcept override {
    if (in_forked_child()) return;
    const std::lock_guard<std::mutex> hold(lock_);
    if (collections_.erase(number) == 0 || !collections_.empty()) return;
    library_->flush_all(cupti::kFlushForced);
    unsubscribe();
  }

 private:
  struct Collection {
    uint32_t kinds = 0;
    bool annotates = false;
    std::vector<std::string> problems;  // reported when it began
    ClockReading begin;
    int64_t begin_ns = 0;
    uint64_t dropped_before = 0, refused_before = 0;
    std::vector<SharedBuffer> buffers;
    cupti::EarlierRecords earlier;  // from portions already read
  };

  // Buffers of a collection, and the data needed to read them without lock_, for which launches of
  // the program may wait.
  struct Portion {
    std::vector<SharedBuffer> buffers;
    cupti::EarlierRecords earlier;
    uint32_t kinds = 0;
    bool annotates = false, own_clock = false;
    ClockReading begin, until;
    double ticks_per_ns = 1;
    uint64_t dropped = 0, refused = 0;
  };

  void take_portion(Collection& collection, Portion& portion) {
    portion.buffers = std::exchange(collection.buffers, {});
    portion.earlier = collection.earlier;
    portion.kinds = collection.kinds;
    portion.annotates = collection.annotates;
    portion.own_clock = own_clock_;
    portion.begin = collection.begin;
    portion.until = clocks();
    const double elapsed = static_cast<double>(platform::monotonic_ns() - collection.begin_ns);
    if (elapsed > 0)
      portion.ticks_per_ns =
          static_cast<double>(portion.until.ticks - portion.begin.ticks) / elapsed;
    const uint64_t dropped = count_dropped(), refused = count_refused();
    portion.dropped = dropped - std::exchange(collection.dropped_before, dropped);
    portion.refused = refused - std::exchange(collection.refused_before, refused);
  }

  // ends: whether this is the last portion.
  Activities read(Portion& portion, std::vector<std::string>& problems, bool ends) {
    const ClockLine clock =
        portion.own_clock ? ClockLine()
                          : ClockLine::between(portion.begin, portion.until, portion.ticks_per_ns);
    cupti::RecordReader reader(*library_, clock, portion.ticks_per_ns, portion.kinds);
    reader.follow(portion.earlier);
    for (const SharedBuffer& buffer : portion.buffers) reader.read(*buffer);
    uint64_t unplaced = 0;
    const uint64_t until = portion.own_clock ? portion.until.ticks : portion.until.theirs;
    Activities activities = reader.take(unplaced, ends ? until : 0);
    if (reader.emitted_markers() != 0)
      problems.push_back(std::to_string(reader.emitted_markers()) +
                         " ranges that NVTX handed to CUPTI were left out, because emit_nvtx sent "
                         "fastprof's own there at the time");
    portion.earlier = reader.leave();
    QueueNames(problems).apply(activities);
    activities.annotates = portion.annotates;
    activities.dropped = portion.dropped + portion.refused + unplaced;
    if (portion.refused != 0)
      problems.push_back(
          "CUDA activities were lost, because more records were waiting than fit into memory: "
          "record fewer steps at a time");
    return activities;
  }

  // Returns whether CUPTI was first used by a process from which this one was forked. CUPTI's
  // threads do not exist here, and lock_ may be held forever: touch nothing then. The first process
  // that uses CUPTI owns it; its ancestors may have registered the backend.
  bool in_forked_child() noexcept {
    const pid_t own = ::getpid();
    pid_t user = 0;
    return !pid_.compare_exchange_strong(user, own) && user != own;
  }
  static constexpr const char* kForked =
      "CUDA cannot be used in a forked child: start the child with the method spawn";

  // CUPTI's buffer callbacks have no user argument.
  static inline CudaBackend* only_ = nullptr;

  // CUPTI calls these on its own threads. They only pass buffers on, and take no lock that is held
  // while CUPTI is called.
  static void request_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
    *buffer = ActivityBuffers::request();
    *size = *buffer != nullptr ? ActivityBuffers::kBufferBytes : 0;
    *max_records = 0;  // as many as fit
  }
  static void complete_buffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
    CudaBackend* const backend = only_;
    std::unique_ptr<uint8_t, cupti::FreeMemory> memory(buffer);
    if (backend->buffers_.complete(memory, valid_bytes)) return;
    uint64_t records = 0;
    cupti::Record* record = nullptr;
    while (backend->library_->next_record(memory.get(), valid_bytes, &record) == result::success)
      ++records;
    __atomic_fetch_add(&backend->refused_, records, __ATOMIC_RELAXED);
  }
  static uint64_t timestamp() { return ticks(state()); }
  static void on_callback(void*, uint32_t, uint32_t, const void*) {}

  ClockReading clocks() const {
    return read_both_clocks([this] {
      uint64_t theirs = 0;
      if (!own_clock_) library_->timestamp(&theirs);
      return theirs;
    });
  }

  // Returns whether CUPTI accepts this process as its client; only subscribing shows whether
  // another tool uses it. Sets `reason` otherwise.
  bool subscribe(std::string& reason) {
    library_ = cupti::load_cupti(libraries_, reason);
    if (library_ == nullptr) return false;
    const cupti::Result code = library_->subscribe(&subscriber_, &on_callback, nullptr);
    if (code == result::success) {
      own_clock_ = library_->register_timestamp != nullptr &&
                   library_->register_timestamp(&timestamp) == result::success;
      kernel_thread_ids_ = library_->set_thread_id_type != nullptr &&
                           library_->set_thread_id_type(cupti::kThreadIdSystem) == result::success;
      const cupti::Result registered =
          library_->register_callbacks(&request_buffer, &complete_buffer);
      if (registered == result::success) return true;
      reason = "CUPTI refused its buffers: " + library_->text_of(registered);
      library_->unsubscribe(subscriber_);
      return false;
    }
    if (code == result::multiple_subscribers || code == result::max_limit_reached)
      reason =
          "another tool uses CUPTI in this process (Nsight, torch.profiler or the like), and it "
          "accepts one: end that first";
    else if (code == result::insufficient_privileges)
      reason =
          "this user may not profile the GPU: see NVIDIA's page on ERR_NVGPUCTRPERM, or run as "
          "root";
    else if (code == result::not_initialized || code == result::unknown)
      reason =
          "there is no CUDA driver or no GPU here (CUPTI answers " + library_->text_of(code) + ")";
    else
      reason = "CUPTI answers " + library_->text_of(code);
    return false;
  }

  void unsubscribe() {
    for (const auto& [activity, bit] : kKinds)
      if ((enabled_ & bit) != 0) library_->disable(activity);
    enabled_ = 0;
    library_->unsubscribe(subscriber_);
    subscriber_ = nullptr;
    buffers_.take();
  }

  void enable(Collection& collection) {
    const uint32_t kinds = collection.kinds;
    if ((kinds & ~enabled_ & listed::unified_memory) != 0) configure_unified_memory(collection);
    for (const auto& [activity, bit] : kKinds) {
      if ((kinds & bit) == 0 || (enabled_ & bit) != 0) continue;
      const cupti::Result code = library_->enable(activity);
      // Older versions reject some kinds. These two are in all versions.
      if (activity == kind::concurrent_kernel)
        check(code, "kernels are not recorded", collection.problems);
      if (activity == kind::runtime)
        check(code, "calls of the runtime are not recorded", collection.problems);
    }
    enabled_ |= kinds;
  }

  // Selects the counters of managed memory, which many devices and systems lack.
  void configure_unified_memory(Collection& collection) {
    constexpr uint32_t counters[] = {cupti::unified::htod,           cupti::unified::dtoh,
                                     cupti::unified::cpu_page_fault, cupti::unified::gpu_page_fault,
                                     cupti::unified::thrashing,      cupti::unified::throttling,
                                     cupti::unified::remote_map,     cupti::unified::dtod};
    std::vector<cupti::UnifiedMemoryConfig> chosen;
    for (const uint32_t counter : counters)
      chosen.push_back({cupti::unified::all_devices, counter, 0, 1});
    const cupti::Result code = library_->configure_unified_memory == nullptr
                                   ? result::invalid_parameter
                                   : library_->configure_unified_memory(
                                         chosen.data(), static_cast<uint32_t>(chosen.size()));
    check(code, "managed memory is not observed", collection.problems);
  }

  void disable_unused() {
    uint32_t wanted = 0;
    for (const auto& [number, collection] : collections_) wanted |= collection.kinds;
    for (const auto& [activity, bit] : kKinds)
      if ((enabled_ & bit) != 0 && (wanted & bit) == 0) library_->disable(activity);
    enabled_ &= wanted;
  }

  // Returns the number of records that CUPTI dropped for lack of a buffer, in this process so far.
  // CUPTI counts from its last answer.
  uint64_t count_dropped() {
    size_t dropped = 0;
    if (library_->dropped_records(nullptr, 0, &dropped) == result::success) dropped_ += dropped;
    return dropped_;
  }

  // Returns the number of records refused because the bound was reached, in this process so far.
  uint64_t count_refused() const noexcept { return __atomic_load_n(&refused_, __ATOMIC_RELAXED); }

  // Passes the buffers filled since the last call to all collections.
  void deliver() {
    for (const SharedBuffer& buffer : buffers_.take())
      for (auto& [number, collection] : collections_) collection.buffers.push_back(buffer);
  }

  void check(cupti::Result code, const char* what, std::vector<std::string>& problems) const {
    if (code != result::success)
      problems.push_back(std::string(what) + ": " + library_->text_of(code));
  }

  std::mutex lock_;
  const std::vector<std::string> libraries_;
  ActivityBuffers buffers_;
  std::atomic<pid_t> pid_{0};  // of the process that uses CUPTI; 0: none yet
  const CuptiLibrary* library_ = nullptr;
  void* subscriber_ = nullptr;
  uint32_t enabled_ = 0;
  bool own_clock_ = false;          // CUPTI's timestamps come from timestamp()
  bool kernel_thread_ids_ = false;  // CUPTI reports the kernel's thread ids
  uint64_t last_ = 0;
  uint64_t dropped_ = 0;
  uint64_t refused_ = 0;  // records for which there was no room; relaxed atomic
  std::map<uint64_t, Collection> collections_;
};

}  // namespace

void register_cuda_backend(std::vector<std::string> libraries) {
  static std::mutex lock;
  const std::lock_guard<std::mutex> hold(lock);
  if (find_backend("CUDA") != nullptr) return;
  // Never destroyed: CUPTI may return buffers while the process exits.
  register_backend(new CudaBackend(std::move(libraries)));
}

}  // namespace devices
FASTPROF_NAMESPACE_END
