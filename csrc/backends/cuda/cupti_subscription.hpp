// SPDX-License-Identifier: Apache-2.0
// CuptiSubscription: the subscription of this process to CUPTI, which accepts one client. It
// controls which kinds are recorded and holds the buffers that CUPTI has filled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/activity_buffers.hpp"
#include "backends/cuda/cupti_library.hpp"
#include "fastprof/session/clock_line.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Singleton, never destroyed: CUPTI may return buffers while the process exits. Not thread-safe.
// CUPTI calls back on threads of its own: callbacks must not take a lock that is held while CUPTI
// is called.
class CuptiSubscription {
 public:
  // libraries: paths at which a libcupti may lie. max_bytes: bound of the records not read yet.
  CuptiSubscription(std::vector<std::string> libraries, uint64_t max_bytes);

  // Returns why CUPTI cannot be used, without becoming its client; empty if it can.
  std::string problem();

  // Subscribes; only this call shows whether another tool holds CUPTI. shares: use CUPTI even if
  // another client has subscribed, which must not be recording (torch.profiler never ends its
  // subscription). Returns false and sets `reason` if CUPTI refuses.
  bool begin(bool shares, std::string& reason);

  // Ends all recording and restores process-wide settings, except the clock, which CUPTI cannot
  // unregister. Buffers that have not been taken are lost. With TEARDOWN_CUPTI=1 in the environment
  // it also detaches CUPTI (cuptiFinalize), as Kineto does: launches then cost as much as without a
  // profiler.
  void end();

  // Enables further kinds (`listed` bits). Adds to `problems` what CUPTI refuses. Returns false,
  // with the reason as the last problem, if kernels are requested and refused.
  bool enable(uint32_t kinds, std::vector<std::string>& problems);

  // Ends the recording of kinds other than `wanted`.
  void disable_others(uint32_t wanted);

  // Waits for the work of all devices whose primary context is in use, and for that of the current
  // context: records of unfinished work are not in any buffer. Adds to `problems` what fails.
  void synchronize(std::vector<std::string>& problems);

  // Makes CUPTI return buffers. forced: also buffers with an incomplete record, which is lost.
  Result flush(bool forced) noexcept { return library_->flush_all(forced ? kFlushForced : 0); }

  // Adds a message to `problems` if the code is an error's. what: `x is not recorded` or the like.
  void check(Result code, const char* what, std::vector<std::string>& problems) const;

  // Returns the buffers filled since the last call.
  std::vector<SharedBuffer> take() { return buffers_.take(); }

  // Reads our clock, and CUPTI's if that is another one.
  ClockReading clocks() const;

  // Returns the number of records that CUPTI dropped for lack of a buffer, in this process so far.
  uint64_t count_dropped();

  // Returns the number of records refused because the bound was reached, in this process so far.
  uint64_t count_refused() const noexcept { return __atomic_load_n(&refused_, __ATOMIC_RELAXED); }

  // Returns the number of our buffers that CUPTI has not returned. Buffers that are missing after a
  // forced flush went to another client, which has registered callbacks of its own meanwhile.
  size_t count_handed_out() { return buffers_.count_handed_out(); }

  // Valid from begin() on.
  const CuptiLibrary& library() const { return *library_; }

  // Whether CUPTI's timestamps are ticks of our clock.
  bool has_own_clock() const { return own_clock_; }

  // Whether CUPTI reports the kernel's thread ids, by which work is linked to ranges.
  bool has_kernel_thread_ids() const { return kernel_thread_ids_; }

 private:
  static void request_buffer(uint8_t** buffer, size_t* size, size_t* max_records);
  static void complete_buffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes);

  Result subscribe();
  std::string refusal(Result code) const;
  void silence_calls(uint32_t kinds);
  bool may_trace_graphs() const;
  // Whether records of cudaEventRecord() have a stamp of the device.
  void set_event_stamps(uint8_t on);
  void configure_unified_memory(std::vector<std::string>& problems);

  // CUPTI's buffer callbacks have no user argument.
  static inline CuptiSubscription* only_ = nullptr;

  const std::vector<std::string> libraries_;
  ActivityBuffers buffers_;
  const CuptiLibrary* library_ = nullptr;
  void* subscriber_ = nullptr;  // null while another client's subscription is shared
  std::string holder_;          // of CUPTI, if it refuses us
  // Calls to switch off, by domain; found at first use.
  std::vector<uint32_t> quiet_runtime_calls_, quiet_driver_calls_;
  bool clock_registered_ = false;  // in this process, and not spoilt since
  uint32_t enabled_ = 0;
  bool own_clock_ = false;
  bool kernel_thread_ids_ = false;
  uint64_t dropped_ = 0;
  uint64_t refused_ = 0;  // relaxed atomic: counted on CUPTI's threads
};

}  // namespace cupti
FASTPROF_NAMESPACE_END
