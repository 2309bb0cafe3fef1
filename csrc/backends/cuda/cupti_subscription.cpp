// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cupti_subscription.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "backends/cuda/activity_kinds.hpp"
#include "backends/cuda/launch_text.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

uint64_t timestamp() {
  return ticks(state());
}
void on_callback(void*, uint32_t, uint32_t, const void*) {}

// More than CUPTI numbers: 13.5 has some 900 calls of the driver.
constexpr uint32_t kMaxCalls = 4096;
constexpr uint32_t kFinalizesWithGraphs = 24;  // CUPTI of CUDA 12.6

Result set_zeroed_buffers(const CuptiLibrary& library, uint8_t on) {
  size_t bytes = sizeof on;
  return library.set_attribute == nullptr ? result::success
                                          : library.set_attribute(kZeroedBuffers, &bytes, &on);
}

}  // namespace

CuptiSubscription::CuptiSubscription(std::vector<std::string> libraries, uint64_t max_bytes)
    : libraries_(std::move(libraries)), buffers_(max_bytes) {
  only_ = this;
}

// CUPTI calls this and complete_buffer() on its own threads and on those that launch. They only
// pass buffers on.
void CuptiSubscription::request_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = only_->buffers_.request();
  *size = *buffer != nullptr ? ActivityBuffers::kBufferBytes : 0;
  *max_records = 0;  // as many as fit
}

void CuptiSubscription::complete_buffer(void*, uint32_t, uint8_t* buffer, size_t,
                                        size_t valid_bytes) {
  CuptiSubscription* const own = only_;
  if (!own->buffers_.take_back(buffer)) return;  // belongs to another client
  std::unique_ptr<uint8_t, FreeMemory> memory(buffer);
  if (own->buffers_.complete(memory, valid_bytes)) return;
  uint64_t records = 0;
  Record* record = nullptr;
  while (own->library_->next_record(memory.get(), valid_bytes, &record) == result::success)
    ++records;
  __atomic_fetch_add(&own->refused_, records, __ATOMIC_RELAXED);
}

std::string CuptiSubscription::problem() {
  std::string reason;
  library_ = load_cupti(libraries_, reason);
  if (library_ == nullptr) return reason;
  // Without a driver, all but the version is refused.
  const Result code = set_zeroed_buffers(*library_, 0);
  return code == result::not_initialized || code == result::unknown ? refusal(code) : "";
}

bool CuptiSubscription::begin(bool shares, std::string& reason) {
  library_ = load_cupti(libraries_, reason);
  if (library_ == nullptr) return false;
  const Result code = subscribe();
  const bool shared = code == result::multiple_subscribers && shares;
  if (code != result::success && !shared) {
    reason = refusal(code);
    return false;
  }
  // Registered once per process: after each registration, some records may have CUPTI's own clock.
  // A client with which we share CUPTI may have registered its clock since.
  if (!clock_registered_ || shared)
    clock_registered_ = library_->register_timestamp != nullptr &&
                        library_->register_timestamp(&timestamp) == result::success;
  own_clock_ = clock_registered_;
  kernel_thread_ids_ = library_->set_thread_id_type != nullptr &&
                       library_->set_thread_id_type(kThreadIdSystem) == result::success;
  set_zeroed_buffers(*library_, 1);
  const Result registered = library_->register_callbacks(&request_buffer, &complete_buffer);
  if (registered == result::success) return true;
  reason = "CUPTI refused its buffers: " + library_->text_of(registered);
  end();
  return false;
}

Result CuptiSubscription::subscribe() {
  holder_.clear();
  subscriber_ = nullptr;
  if (library_->subscribe_v2 != nullptr) {
    char holder[128] = "";
    SubscriberParams params{sizeof params, "fastprof", holder, sizeof holder};
    const Result code = library_->subscribe_v2(&subscriber_, &on_callback, nullptr, &params);
    holder[sizeof holder - 1] = 0;
    holder_ = holder;
    if (code != result::invalid_parameter) return code;
  }
  return library_->subscribe(&subscriber_, &on_callback, nullptr);
}

std::string CuptiSubscription::refusal(Result code) const {
  if (code == result::multiple_subscribers || code == result::max_limit_reached)
    return "another tool uses CUPTI in this process (" +
           (holder_.empty() || holder_.find("<not provided>") != std::string::npos
                ? "Nsight, torch.profiler or the like"
                : holder_) +
           "), and it accepts one: end that first";
  if (code == result::insufficient_privileges)
    return "this user may not profile the GPU (" + library_->text_of(code) +
           "): see NVIDIA's page on ERR_NVGPUCTRPERM, or run as root";
  if (code == result::virtualized_not_supported ||
      code == result::virtualized_insufficient_privileges || code == result::mig_not_supported)
    return "this virtual GPU or MIG instance cannot be profiled (" + library_->text_of(code) +
           "): its administrator must enable profiling for it";
  if (code == result::not_initialized || code == result::unknown)
    return "there is no CUDA driver or no GPU here, or the driver is older than libcupti (CUPTI "
           "answers " +
           library_->text_of(code) + "; " + library_->versions() + ")";
  return "CUPTI answers " + library_->text_of(code) + " (" + library_->versions() + ")";
}

void CuptiSubscription::end() {
  disable_others(0);
  if (subscriber_ != nullptr) library_->unsubscribe(subscriber_);
  subscriber_ = nullptr;
  if (kernel_thread_ids_) library_->set_thread_id_type(kThreadIdDefault);
  set_zeroed_buffers(*library_, 0);
  buffers_.take();
  buffers_.forget_handed_out();
  const char* const teardown = std::getenv("TEARDOWN_CUPTI");
  // Before CUDA 12.6, detaching with instantiated CUDA graphs crashes the next replay.
  if (teardown != nullptr && std::strcmp(teardown, "1") == 0 && library_->finalize != nullptr &&
      library_->version >= kFinalizesWithGraphs && library_->finalize() == result::success)
    clock_registered_ = false;
}

bool CuptiSubscription::enable(uint32_t kinds, std::vector<std::string>& problems) {
  if ((kinds & ~enabled_ & listed::graph) != 0 && !may_trace_graphs()) {
    kinds &= ~listed::graph;
    problems.push_back(
        "CUDA graphs are not recorded as a whole, because CUDA was in use before the profile: a "
        "graph that was instantiated before crashes in CUPTI at its next launch. Begin the profile "
        "before the first use of CUDA, or set FASTPROF_CUDA_GRAPH_TRACE=1 if each graph is "
        "instantiated inside a profile with the type cuda_graph" +
        std::string(((kinds | enabled_) & listed::kernel) != 0
                        ? ". Until then, its nodes are recorded"
                        : ". Nothing of it is recorded without the type kernel"));
  }
  if ((kinds & ~enabled_ & listed::unified_memory) != 0) configure_unified_memory(problems);
  if ((kinds & ~enabled_ & listed::sync) != 0) set_event_stamps(1);
  std::string kernels_refused;
  for (const auto& [activity, bit] : kRecordKinds) {
    if ((kinds & bit) == 0 || (enabled_ & bit) != 0) continue;
    const Result code = library_->enable(activity);
    if (code == result::success) continue;
    const std::string problem =
        std::string(kind_name(activity)) + " are not recorded: " + refusal(code);
    if (activity == kind::concurrent_kernel)
      kernels_refused = problem;
    else if (activity != kind::memcpy2 &&
             activity != kind::marker_data)  // older versions lack these
      problems.push_back(problem);
  }
  silence_calls(kinds & ~enabled_);
  enabled_ |= kinds;
  if (kernels_refused.empty()) return true;
  problems.push_back(kernels_refused);
  return false;
}

// Disables calls whose records would be discarded by the reader: a launch by PyTorch makes five
// calls of the runtime, and each record costs CUPTI 200 ns or so. Enabling a kind enables all of
// its calls again.
void CuptiSubscription::silence_calls(uint32_t kinds) {
  const auto silence = [&](uint32_t domain, Result (*enable_call)(uint32_t, uint8_t),
                           std::vector<uint32_t>& quiet) {
    if (enable_call == nullptr || library_->callback_name == nullptr) return;
    if (quiet.empty()) {
      const char* text = nullptr;
      for (uint32_t cbid = 1; cbid < kMaxCalls; ++cbid)
        if (library_->callback_name(domain, cbid, &text) == result::success && text != nullptr &&
            !lists_call(domain, call_name(*library_, domain, cbid)))
          quiet.push_back(cbid);
    }
    for (const uint32_t cbid : quiet) enable_call(cbid, 0);
  };
  if ((kinds & listed::runtime) != 0)
    silence(domain::runtime_api, library_->enable_runtime_call, quiet_runtime_calls_);
  if ((kinds & listed::driver) != 0)
    silence(domain::driver_api, library_->enable_driver_call, quiet_driver_calls_);
}

void CuptiSubscription::set_event_stamps(uint8_t on) {
  if (library_->enable_event_stamps != nullptr) library_->enable_event_stamps(on);
}

void CuptiSubscription::disable_others(uint32_t wanted) {
  if ((enabled_ & ~wanted & listed::sync) != 0) set_event_stamps(0);
  for (const auto& [activity, bit] : kRecordKinds)
    if ((enabled_ & bit) != 0 && (wanted & bit) == 0) library_->disable(activity);
  enabled_ &= wanted;
}

// CUPTI 13.0 crashes when a graph is launched while graphs are traced as a whole, if the graph was
// instantiated before that tracing began. Without a context, no graph exists.
bool CuptiSubscription::may_trace_graphs() const {
  const char* const promised = std::getenv("FASTPROF_CUDA_GRAPH_TRACE");
  if (promised != nullptr && std::strcmp(promised, "1") == 0) return true;
  const CuptiLibrary::Driver& driver = library_->driver;
  if (driver.device_count == nullptr || driver.primary_state == nullptr) return false;
  int devices = 0;
  if (driver.device_count(&devices) != 0) return true;  // the driver is not initialised
  for (int device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver.primary_state(device, &flags, &active) != 0 || active != 0) return false;
  }
  return true;
}

// Selects the counters of managed memory, which many devices and systems lack.
void CuptiSubscription::configure_unified_memory(std::vector<std::string>& problems) {
  constexpr uint32_t counters[] = {
      unified::htod,      unified::dtoh,       unified::cpu_page_fault, unified::gpu_page_fault,
      unified::thrashing, unified::throttling, unified::remote_map,     unified::dtod};
  std::vector<UnifiedMemoryConfig> chosen;
  for (const uint32_t counter : counters) chosen.push_back({unified::all_devices, counter, 0, 1});
  const Result code =
      library_->configure_unified_memory == nullptr
          ? result::invalid_parameter
          : library_->configure_unified_memory(chosen.data(), static_cast<uint32_t>(chosen.size()));
  check(code, "managed memory is not observed", problems);
}

void CuptiSubscription::synchronize(std::vector<std::string>& problems) {
  const CuptiLibrary::Driver& driver = library_->driver;
  if (driver.context_synchronize == nullptr) return;
  driver.context_synchronize();  // it may not be a primary one; without one, this fails
  if (driver.device_count == nullptr || driver.primary_state == nullptr ||
      driver.primary_retain == nullptr || driver.primary_release == nullptr ||
      driver.context_push == nullptr || driver.context_pop == nullptr)
    return;
  int devices = 0;
  if (driver.device_count(&devices) != 0) return;
  for (int device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int active = 0;
    void* context = nullptr;
    if (driver.primary_state(device, &flags, &active) != 0 || active == 0 ||
        driver.primary_retain(&context, device) != 0)
      continue;
    int code = driver.context_push(context);
    if (code == 0) {
      code = driver.context_synchronize();
      driver.context_pop(&context);
    }
    driver.primary_release(device);
    if (code != 0)
      problems.push_back("device " + std::to_string(device) +
                         " could not be waited for (error of the driver " + std::to_string(code) +
                         "): unfinished work is missing");
  }
}

ClockReading CuptiSubscription::clocks() const {
  return read_both_clocks([this] {
    uint64_t theirs = 0;
    if (!own_clock_) library_->timestamp(&theirs);
    return theirs;
  });
}

// CUPTI reports the number since the previous call.
uint64_t CuptiSubscription::count_dropped() {
  size_t dropped = 0;
  if (library_->dropped_records(nullptr, 0, &dropped) == result::success) dropped_ += dropped;
  return dropped_;
}

void CuptiSubscription::check(Result code, const char* what,
                              std::vector<std::string>& problems) const {
  if (code != result::success)
    problems.push_back(std::string(what) + ": " + library_->text_of(code));
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
