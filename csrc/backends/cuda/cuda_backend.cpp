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

#include "backends/cuda/activity_kinds.hpp"
#include "backends/cuda/cupti_subscription.hpp"
#include "backends/cuda/queue_names.hpp"
#include "backends/cuda/record_reader.hpp"
#include "core/named_objects.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace devices {
namespace {

using cupti::SharedBuffer;
namespace listed = cupti::listed;

// Bound of the records that have not been read yet, in bytes: FASTPROF_CUPTI_MAX_BYTES, or 1 GB.
uint64_t max_bytes() {
  const char* const text = std::getenv("FASTPROF_CUPTI_MAX_BYTES");
  const uint64_t chosen = text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
  return chosen != 0 ? chosen : uint64_t{1} << 30;
}

// Whether NVTX passes the program's ranges to CUPTI, which reports them as markers. A copy of NVTX
// has one tool: with fastprof's injection library there are no markers.
bool nvtx_reaches_cupti() {
  const char* const path = std::getenv(kNvtxVariable);
  return path != nullptr && std::string(path).find("libcupti") != std::string::npos;
}

class CudaBackend final : public DeviceBackend {
 public:
  explicit CudaBackend(std::vector<std::string> libraries)
      : cupti_(std::move(libraries), max_bytes()) {}

  std::string name() const override { return "CUDA"; }

  std::string problem() override {
    if (in_forked_child()) return kForked;
    const std::lock_guard<std::mutex> hold(lock_);
    return collections_.empty() ? cupti_.problem() : std::string();
  }

  uint64_t begin(const CollectionRequest& request) override {
    if (in_forked_child()) raise<UnavailableError>(kForked);
    const std::lock_guard<std::mutex> hold(lock_);
    std::string reason;
    if (collections_.empty() && !cupti_.begin(request.shares_tool, reason))
      raise<UnavailableError>("work on CUDA devices cannot be collected: " + reason);
    deliver();  // what was recorded before belongs to the other collections
    Collection collection;
    collection.kinds = cupti::kinds_of(request.types);
    if ((collection.kinds & listed::runtime) != 0 && nvtx_reaches_cupti())
      collection.kinds |= listed::marker;
    collection.annotates = cupti::annotates(request.types);
    collection.dropped_before = cupti_.count_dropped();
    collection.refused_before = cupti_.count_refused();
    collection.begin = cupti_.clocks();
    collection.host_begin = read_host_clocks();
    if (!cupti_.enable(collection.kinds, collection.problems) && collections_.empty()) {
      cupti_.end();
      raise<UnavailableError>("work on CUDA devices cannot be collected: " +
                              collection.problems.back());
    }
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
      cupti_.synchronize(problems);
      flush(true, problems);
      deliver();
      if (const size_t lost = cupti_.count_handed_out())
        problems.push_back(
            "another client of CUPTI took over the records during the profile (" +
            std::to_string(lost) +
            " buffers did not come back): kernels, copies and calls since then are missing. End "
            "the other profiler first");
      if (!cupti_.has_kernel_thread_ids())
        problems.push_back(
            "CUPTI does not number threads as the kernel does: work is not linked to ranges");
      take_portion(at->second, portion);
      problems.insert(problems.end(), at->second.problems.begin(), at->second.problems.end());
      collections_.erase(at);
      if (collections_.empty()) {
        cupti_.end();
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
      flush(false, problems);
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
    return at != collections_.end() && cupti_.count_refused() != at->second.refused_before;
  }

  void abandon(uint64_t number) noexcept override {
    if (in_forked_child()) return;
    const std::lock_guard<std::mutex> hold(lock_);
    if (collections_.erase(number) == 0 || !collections_.empty()) return;
    cupti_.flush(true);
    cupti_.end();
  }

 private:
  struct Collection {
    uint32_t kinds = 0;
    bool annotates = false;
    std::vector<std::string> problems;  // reported when it began
    ClockReading begin;
    ClockReading host_begin;
    uint64_t dropped_before = 0, refused_before = 0;
    std::vector<SharedBuffer> buffers;
    cupti::EarlierRecords earlier;  // from portions already read
  };

  // Buffers of a collection and all that is needed to read them without lock_, because launches of
  // the program may wait for that lock.
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
    portion.own_clock = cupti_.has_own_clock();
    portion.begin = collection.begin;
    portion.until = cupti_.clocks();
    portion.ticks_per_ns = ticks_per_ns(collection.host_begin, read_host_clocks());
    const uint64_t dropped = cupti_.count_dropped(), refused = cupti_.count_refused();
    portion.dropped = dropped - std::exchange(collection.dropped_before, dropped);
    portion.refused = refused - std::exchange(collection.refused_before, refused);
  }

  // ends: whether this is the last portion.
  Activities read(Portion& portion, std::vector<std::string>& problems, bool ends) {
    const ClockLine clock =
        portion.own_clock ? ClockLine()
                          : ClockLine::between(portion.begin, portion.until, portion.ticks_per_ns);
    cupti::RecordReader reader(cupti_.library(), clock, portion.ticks_per_ns, portion.kinds);
    reader.reject_after(portion.until.ticks);
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
    activities.dropped = portion.dropped + portion.refused + unplaced + reader.rejected();
    if (reader.rejected() != 0)
      problems.push_back(std::to_string(reader.rejected()) +
                         " CUDA activities were dropped, because they begin before the call that "
                         "launched them or end after the profile: CUPTI stamped them with another "
                         "clock");
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

  void flush(bool forced, std::vector<std::string>& problems) {
    cupti_.check(cupti_.flush(forced), "the records could not be flushed", problems);
  }

  void disable_unused() {
    uint32_t wanted = 0;
    for (const auto& [number, collection] : collections_) wanted |= collection.kinds;
    cupti_.disable_others(wanted);
  }

  // Passes the buffers filled since the last call to all collections.
  void deliver() {
    for (const SharedBuffer& buffer : cupti_.take())
      for (auto& [number, collection] : collections_) collection.buffers.push_back(buffer);
  }

  std::mutex lock_;
  cupti::CuptiSubscription cupti_;
  std::atomic<pid_t> pid_{0};  // of the process that uses CUPTI; 0: none yet
  uint64_t last_ = 0;
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
