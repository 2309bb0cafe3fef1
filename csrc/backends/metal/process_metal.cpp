// SPDX-License-Identifier: Apache-2.0
// The process's Metal profiler and the backend "MPS": see process_metal.hpp.
#include "backends/metal/process_metal.hpp"

#include <unistd.h>

#include "backends/metal/find_platform.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/metal/exit_report.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

ProcessMetal* ProcessMetal::get(std::string& reason) {
  static std::mutex lock;
  static ProcessMetal* only = nullptr;
  static pid_t pid = 0;
  const std::lock_guard<std::mutex> hold(lock);
  if (only != nullptr && pid != ::getpid()) {
    reason = "Metal cannot be used in a forked child: start the child with the method spawn";
    return nullptr;
  }
  if (only != nullptr) return only;
  Platform* const platform = find_platform(reason);
  if (platform == nullptr) return nullptr;
  if (!(reason = platform->problem()).empty()) return nullptr;
  only = new ProcessMetal(*platform, options_of_environment());
  pid = ::getpid();
  return only;
}

ProcessMetal::ProcessMetal(Platform& platform, const Options& options)
    : platform_(platform),
      profiler_(Profiler::make(platform, options)),
      capture_(platform),
      activities_(std::make_shared<MetalActivities>(platform)) {
  report_at_exit();
  follow_wants();
}

void ProcessMetal::report_at_exit() {
  if (profiler_->options().statistics()) ExitReport::instance().arm(profiler_);
}

void ProcessMetal::follow_wants() {
  const bool wanted = profiler_->is_operation_profiling_enabled();
  if (wanted == observes_) return;
  std::string reason;
  if (!platform_.observe_commits(wanted ? std::make_shared<CommandBuffers>(profiler_) : nullptr,
                                 reason))
    raise<UnavailableError>("Metal command buffers cannot be observed: " + reason);
  observes_ = wanted;
}

void ProcessMetal::start_trace(const std::string& mode, bool wait_until_completed) {
  const std::lock_guard<std::mutex> hold(lock_);
  profiler_->start_trace(mode, wait_until_completed);
  follow_wants();
}

void ProcessMetal::stop_trace() {
  const std::lock_guard<std::mutex> hold(lock_);
  profiler_->stop_trace();
  follow_wants();
}

void ProcessMetal::set_log_options(uint32_t log) {
  const std::lock_guard<std::mutex> hold(lock_);
  profiler_->set_log_options(log);
  report_at_exit();
  follow_wants();
}

uint64_t ProcessMetal::begin_collection() {
  const std::lock_guard<std::mutex> hold(lock_);
  if (collections_++ == 0) profiler_->set_observer(activities_);
  try {
    follow_wants();
  } catch (...) {
    if (--collections_ == 0) profiler_->set_observer(nullptr);
    throw;
  }
  return activities_->open();
}

Activities ProcessMetal::end_collection(uint64_t collection, std::vector<std::string>& problems) {
  try {
    // Work encoded by fastprof's streams and by PyTorch's; other code commits its own.
    platform_.synchronize_all();
  } catch (const std::exception& error) {
    problems.push_back(std::string("Metal work failed when it was completed: ") + error.what());
  }
  uint64_t unfinished = 0;
  Activities found = activities_->close(collection, 10.0, &unfinished);
  if (unfinished != 0)
    problems.push_back(std::to_string(unfinished) +
                       " Metal command buffers had not completed 10 s after the end of the "
                       "profile, and are missing: wait for them before it ends");
  const std::lock_guard<std::mutex> hold(lock_);
  if (--collections_ == 0) profiler_->set_observer(nullptr);
  follow_wants();
  return found;
}

void ProcessMetal::abandon_collection(uint64_t collection) noexcept {
  activities_->abandon(collection);
  const std::lock_guard<std::mutex> hold(lock_);
  if (--collections_ == 0) profiler_->set_observer(nullptr);
  try {
    follow_wants();
  } catch (const std::exception&) {  // commits stay observed: a cost, but harmless
  }
}

}  // namespace metal

namespace devices {
namespace {

// The types of a CollectionRequest have no effect: each command buffer is one row.
class MetalBackend final : public DeviceBackend {
 public:
  std::string name() const override { return "MPS"; }
  std::string problem() override {
    std::string reason;
    metal::ProcessMetal::get(reason);
    return reason;
  }
  uint64_t begin(const CollectionRequest&) override {
    std::string reason;
    metal::ProcessMetal* const process = metal::ProcessMetal::get(reason);
    if (process == nullptr) raise<UnavailableError>("Metal work cannot be collected: " + reason);
    return process->begin_collection();
  }
  Activities end(uint64_t collection, std::vector<std::string>& problems) override {
    std::string reason;
    metal::ProcessMetal* const process = metal::ProcessMetal::get(reason);
    if (process == nullptr) raise<StateError>("this collection belongs to the parent process");
    return process->end_collection(collection, problems);
  }
  void abandon(uint64_t collection) noexcept override {
    std::string reason;
    metal::ProcessMetal* const process = metal::ProcessMetal::get(reason);
    if (process != nullptr) process->abandon_collection(collection);
  }
};

}  // namespace

void register_metal_backend() {
  static MetalBackend* const only = new MetalBackend;
  if (find_backend("MPS") == nullptr) register_backend(only);
}

}  // namespace devices
FASTPROF_NAMESPACE_END
