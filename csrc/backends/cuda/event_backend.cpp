// SPDX-License-Identifier: Apache-2.0
// The backends of events: while a collection is open, a callback of all RecordFunctions records
// an event on the current stream at the begin and end of each range. timed_ranges.cpp converts them
// to rows.
#include "backends/cuda/event_backend.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/cuda/timed_ranges.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/legacy/exclusive_profiler.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/primitives/callbacks.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/session/clock_line.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {
namespace {

using cuda::EventPool;
using cuda::RecordedEvent;
using cuda::RuntimeVendor;
using cuda::TimedRange;
using SharedRange = std::shared_ptr<const TimedRange>;

// Bound of the ranges that a collection keeps: two events each.
constexpr size_t kMaxRanges = size_t{1} << 20;

struct FASTPROF_VISIBLE OpenTimedRange final : ObserverContext {
  std::shared_ptr<RecordedEvent> begin;
  uint32_t thread = 0;
};

class EventBackend final : public DeviceBackend {
 public:
  EventBackend(const RuntimeVendor& vendor, std::vector<std::string> candidates)
      : vendor_(vendor), candidates_(std::move(candidates)), pid_(::getpid()) {
    only_ = this;
  }

  std::string name() const override { return vendor_.backend; }

  std::string problem() override {
    std::string reason;
    if (::getpid() != pid_)
      return vendor_.device + std::string(" cannot be used in a forked child");
    EventPool* const pool = cuda::event_pool(vendor_, candidates_, reason);
    if (pool != nullptr) pool->runtime().usable_devices(reason);
    return reason;
  }

  uint64_t begin(const CollectionRequest&) override {
    const std::string reason = problem();
    if (!reason.empty())
      raise<UnavailableError>("ranges cannot be timed on " + std::string(vendor_.device) +
                              " devices: " + reason);
    const std::lock_guard<std::mutex> control(control_);
    pool_ = cuda::event_pool(vendor_, candidates_, last_problem_);
    auto collection = std::make_unique<Collection>();
    collection->failures_before = pool_->failures();
    collection->captured_before = pool_->captured();
    collection->begin = read_host_clocks();
    const uint64_t number = ++last_;
    const bool first = is_idle();
    {
      const std::lock_guard<std::mutex> hold(lock_);
      collections_.emplace(number, std::move(collection));
    }
    if (first) callback_ = add_global_callback(RecordFunctionCallback(&range_begins, &range_ends));
    return number;
  }

  Activities end(uint64_t number, std::vector<std::string>& problems) override {
    if (::getpid() != pid_) raise<StateError>("this collection belongs to the parent process");
    const std::lock_guard<std::mutex> control(control_);
    const std::unique_ptr<Collection> collection = remove(number);
    if (collection == nullptr)
      raise<StateError>("this collection of " + name() + " has ended already");
    const double ticks_per_us = 1000 * ticks_per_ns(collection->begin, read_host_clocks());
    Activities found = cuda::activities_of(*pool_, collection->ranges, ticks_per_us, problems);
    const uint64_t failures = pool_->failures() - collection->failures_before;
    found.dropped += collection->refused + failures;
    if (failures != 0)
      problems.push_back(std::to_string(failures) + " " + name() +
                         " could not be recorded: the ranges have no device time");
    if (pool_->captured() != collection->captured_before)
      problems.push_back(
          std::string("ranges were not timed while their stream was captured into a ") +
          vendor_.device + " graph, where events have no time");
    return found;
  }

  bool is_full(uint64_t number) override {
    const std::lock_guard<std::mutex> hold(lock_);
    const auto at = collections_.find(number);
    return at != collections_.end() && at->second->refused != 0;
  }

  void abandon(uint64_t number) noexcept override {
    if (::getpid() != pid_) return;
    const std::lock_guard<std::mutex> control(control_);
    remove(number);
  }

 private:
  struct Collection {
    std::vector<SharedRange> ranges;
    uint64_t refused = 0;
    uint64_t failures_before = 0, captured_before = 0;
    ClockReading begin;
  };

  // Callbacks have no argument of ours. A process has devices of one vendor.
  static inline EventBackend* only_ = nullptr;

  static std::unique_ptr<ObserverContext> range_begins(const RecordFunction& function) {
    if (function.is_async() || excluded_from_device_timing(function.name()) ||
        ::getpid() != only_->pid_)
      return nullptr;
    auto open = std::make_unique<OpenTimedRange>();
    int device = -1;
    open->begin = only_->pool_->record(&device);
    if (open->begin == nullptr) return nullptr;
    open->thread = platform::thread_id();
    return open;
  }

  static void range_ends(const RecordFunction& function, ObserverContext* context) {
    if (context == nullptr || ::getpid() != only_->pid_) return;
    const auto& open = *static_cast<const OpenTimedRange*>(context);
    const uint64_t begin_ticks = function.recorded_begin_ticks();
    if (begin_ticks == 0 || open.thread != platform::thread_id()) return;
    int device = -1;
    const std::shared_ptr<RecordedEvent> end = only_->pool_->record(&device);
    // Events of different devices or streams have no common time.
    if (end == nullptr || end->device != open.begin->device || end->stream != open.begin->stream)
      return;
    only_->add(
        std::make_shared<TimedRange>(TimedRange{std::string(function.name()), open.begin, end,
                                                begin_ticks, only_->next_end(), open.thread}));
  }

  uint64_t next_end() noexcept { return __atomic_fetch_add(&ends_, 1, __ATOMIC_RELAXED); }

  void add(SharedRange range) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (auto& [number, collection] : collections_) {
      if (collection->ranges.size() < kMaxRanges)
        collection->ranges.push_back(range);
      else
        ++collection->refused;
    }
  }

  bool is_idle() {
    const std::lock_guard<std::mutex> hold(lock_);
    return collections_.empty();
  }

  // Removes a collection, and the callback with the last one. Returns null for an unknown number.
  std::unique_ptr<Collection> remove(uint64_t number) {
    std::unique_ptr<Collection> found;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      const auto at = collections_.find(number);
      if (at == collections_.end()) return nullptr;
      found = std::move(at->second);
      collections_.erase(at);
      if (!collections_.empty()) return found;
    }
    remove_callback(callback_);
    return found;
  }

  const RuntimeVendor& vendor_;
  const std::vector<std::string> candidates_;
  const pid_t pid_;
  std::mutex control_;  // begin and end; taken before lock_
  std::mutex lock_;     // guards collections_
  std::map<uint64_t, std::unique_ptr<Collection>> collections_;
  EventPool* pool_ = nullptr;  // set before the callback is registered
  std::string last_problem_;
  CallbackHandle callback_ = kInvalidCallbackHandle;
  uint64_t last_ = 0;
  uint64_t ends_ = 0;  // relaxed atomic: compared only between ranges of one thread
};

}  // namespace

void register_event_backend(const RuntimeVendor& vendor, std::vector<std::string> candidates) {
  static std::mutex lock;
  const std::lock_guard<std::mutex> hold(lock);
  if (find_backend(vendor.backend) != nullptr) return;
  register_backend(new EventBackend(vendor, std::move(candidates)));  // of the process
}

}  // namespace devices
FASTPROF_NAMESPACE_END
