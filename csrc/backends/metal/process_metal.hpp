// SPDX-License-Identifier: Apache-2.0
// ProcessMetal: the Metal profiler of this process, for Python and for the backend "MPS".
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device_backend.hpp"
#include "fastprof/metal/command_buffers.hpp"
#include "fastprof/metal/gpu_capture.hpp"
#include "fastprof/metal/profiler.hpp"
#include "fastprof/session/metal_activities.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// Singleton, never destroyed. Command buffers are observed while a trace or a collection runs, or
// while the log options request operations. All functions: any thread.
class ProcessMetal {
 public:
  // Returns the object, made at the first call with the options of the environment. If these
  // request tables, the tables are printed at exit and on SIGINT. Returns null and sets `reason` if
  // there is no Metal here. Raises ValueError if the environment's options are invalid.
  static ProcessMetal* get(std::string& reason);

  Profiler& profiler() { return *profiler_; }
  GpuCapture& capture() { return capture_; }
  Platform& platform() { return platform_; }

  // As the Profiler's functions of the same names, and start or stop observing command buffers
  // accordingly. Raise the same errors, and UnavailableError if commits cannot be observed.
  void start_trace(const std::string& mode, bool wait_until_completed);
  void stop_trace();
  void set_log_options(uint32_t log);

  // Collections of activities, for sessions.
  uint64_t begin_collection();
  Activities end_collection(uint64_t collection, std::vector<std::string>& problems);
  void abandon_collection(uint64_t collection) noexcept;

 private:
  ProcessMetal(Platform& platform, const Options& options);
  // Starts or stops observing commits according to the profiler's state. lock_ is held.
  void follow_wants();
  void report_at_exit();

  Platform& platform_;
  std::shared_ptr<Profiler> profiler_;
  GpuCapture capture_;
  std::shared_ptr<MetalActivities> activities_;
  std::mutex lock_;
  uint64_t collections_ = 0;  // number of open collections
  bool observes_ = false;
};

}  // namespace metal

namespace devices {

// Registers the backend "MPS" if this process has Metal; the first call counts.
void register_metal_backend();

}  // namespace devices
FASTPROF_NAMESPACE_END
