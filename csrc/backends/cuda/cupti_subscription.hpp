// SPDX-License-Identifier: Apache-2.0
// CuptiSubscription: this process as the one client that CUPTI accepts: which kinds are recorded,
// and the buffers that CUPTI has filled.
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

// One object a process, never destroyed: CUPTI may return buffers while the process exits. Not
// thread-safe, except that CUPTI calls back on threads of its own; no lock that is held while CUPTI
// is called may be taken there.
class CuptiSubscription {
 public:
  // libraries: paths at which a libcupti may lie. max_bytes: bound of the records not read yet.
  CuptiSubscription(std::vector<std::string> libraries, uint64_t max_bytes);

  // Returns whether CUPTI accepts this process as its client; only subscribing shows whether
  // another tool uses it. Sets `reason` otherwise.
  bool begin(std::string& reason);

  // Ends all recording. Buffers that have not been taken are lost.
  void end();

  // Has the kinds (`listed` bits) recorded, too. Adds to `problems` what CUPTI refuses.
  void enable(uint32_t kinds, std::vector<std::string>& problems);

  // Ends the recording of kinds other than `wanted`.
  void disable_others(uint32_t wanted);

  // Completes the driver's work: records of unfinished work are not in any buffer.
  void synchronize();

  // Has CUPTI return buffers. forced: also those with an incomplete record, which is lost.
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

  // Valid from begin() on.
  const CuptiLibrary& library() const { return *library_; }

  // Whether CUPTI's timestamps are ticks of our clock.
  bool has_own_clock() const { return own_clock_; }

  // Whether CUPTI reports the kernel's thread ids, by which work is linked to ranges.
  bool has_kernel_thread_ids() const { return kernel_thread_ids_; }

 private:
  static void request_buffer(uint8_t** buffer, size_t* size, size_t* max_records);
  static void complete_buffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes);

  std::string refusal(Result code) const;
  void configure_unified_memory(std::vector<std::string>& problems);

  // CUPTI's buffer callbacks have no user argument.
  static inline CuptiSubscription* only_ = nullptr;

  const std::vector<std::string> libraries_;
  ActivityBuffers buffers_;
  const CuptiLibrary* library_ = nullptr;
  void* subscriber_ = nullptr;
  uint32_t enabled_ = 0;
  bool own_clock_ = false;
  bool kernel_thread_ids_ = false;
  uint64_t dropped_ = 0;
  uint64_t refused_ = 0;  // relaxed atomic: counted on CUPTI's threads
};

}  // namespace cupti
FASTPROF_NAMESPACE_END
