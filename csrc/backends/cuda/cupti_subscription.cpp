// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cupti_subscription.hpp"

#include <utility>

#include "backends/cuda/activity_kinds.hpp"
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

}  // namespace

CuptiSubscription::CuptiSubscription(std::vector<std::string> libraries, uint64_t max_bytes)
    : libraries_(std::move(libraries)), buffers_(max_bytes) {
  only_ = this;
}

// CUPTI calls this and complete_buffer() on its own threads. They only pass buffers on.
void CuptiSubscription::request_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = ActivityBuffers::request();
  *size = *buffer != nullptr ? ActivityBuffers::kBufferBytes : 0;
  *max_records = 0;  // as many as fit
}

void CuptiSubscription::complete_buffer(void*, uint32_t, uint8_t* buffer, size_t,
                                        size_t valid_bytes) {
  CuptiSubscription* const own = only_;
  std::unique_ptr<uint8_t, FreeMemory> memory(buffer);
  if (own->buffers_.complete(memory, valid_bytes)) return;
  uint64_t records = 0;
  Record* record = nullptr;
  while (own->library_->next_record(memory.get(), valid_bytes, &record) == result::success)
    ++records;
  __atomic_fetch_add(&own->refused_, records, __ATOMIC_RELAXED);
}

bool CuptiSubscription::begin(std::string& reason) {
  library_ = load_cupti(libraries_, reason);
  if (library_ == nullptr) return false;
  const Result code = library_->subscribe(&subscriber_, &on_callback, nullptr);
  if (code != result::success) {
    reason = refusal(code);
    return false;
  }
  own_clock_ = library_->register_timestamp != nullptr &&
               library_->register_timestamp(&timestamp) == result::success;
  kernel_thread_ids_ = library_->set_thread_id_type != nullptr &&
                       library_->set_thread_id_type(kThreadIdSystem) == result::success;
  const Result registered = library_->register_callbacks(&request_buffer, &complete_buffer);
  if (registered == result::success) return true;
  reason = "CUPTI refused its buffers: " + library_->text_of(registered);
  library_->unsubscribe(subscriber_);
  return false;
}

std::string CuptiSubscription::refusal(Result code) const {
  if (code == result::multiple_subscribers || code == result::max_limit_reached)
    return "another tool uses CUPTI in this process (Nsight, torch.profiler or the like), and it "
           "accepts one: end that first";
  if (code == result::insufficient_privileges)
    return "this user may not profile the GPU: see NVIDIA's page on ERR_NVGPUCTRPERM, or run as "
           "root";
  if (code == result::not_initialized || code == result::unknown)
    return "there is no CUDA driver or no GPU here (CUPTI answers " + library_->text_of(code) + ")";
  return "CUPTI answers " + library_->text_of(code);
}

void CuptiSubscription::end() {
  disable_others(0);
  library_->unsubscribe(subscriber_);
  subscriber_ = nullptr;
  buffers_.take();
}

void CuptiSubscription::enable(uint32_t kinds, std::vector<std::string>& problems) {
  if ((kinds & ~enabled_ & listed::unified_memory) != 0) configure_unified_memory(problems);
  for (const auto& [activity, bit] : kRecordKinds) {
    if ((kinds & bit) == 0 || (enabled_ & bit) != 0) continue;
    const Result code = library_->enable(activity);
    // Older versions reject some kinds. These two are in all versions.
    if (activity == kind::concurrent_kernel) check(code, "kernels are not recorded", problems);
    if (activity == kind::runtime) check(code, "calls of the runtime are not recorded", problems);
  }
  enabled_ |= kinds;
}

void CuptiSubscription::disable_others(uint32_t wanted) {
  for (const auto& [activity, bit] : kRecordKinds)
    if ((enabled_ & bit) != 0 && (wanted & bit) == 0) library_->disable(activity);
  enabled_ &= wanted;
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

void CuptiSubscription::synchronize() {
  if (library_->context_synchronize != nullptr) library_->context_synchronize();
}

ClockReading CuptiSubscription::clocks() const {
  return read_both_clocks([this] {
    uint64_t theirs = 0;
    if (!own_clock_) library_->timestamp(&theirs);
    return theirs;
  });
}

// CUPTI counts from its last answer.
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
