// SPDX-License-Identifier: Apache-2.0
// RocprofilerClient: this process as a tool of rocprofiler-sdk: what is traced, the records that
// were delivered, and the names of kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/rocm/rocprofiler_library.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {

// Records that one callback delivered.
struct Batch {
  std::vector<CallRecord> calls;
  std::vector<KernelRecord> kernels;
  std::vector<CopyRecord> copies;
};
using Batches = std::vector<std::shared_ptr<const Batch>>;

// One object a process, never destroyed: rocprofiler-sdk calls back on threads of its own, also
// while the process exits. Functions may be called from any thread, one at a time.
class RocprofilerClient {
 public:
  // libraries: paths at which librocprofiler-sdk may lie.
  explicit RocprofilerClient(std::vector<std::string> libraries)
      : libraries_(std::move(libraries)) {}

  // Registers this process as a tool, at the first call: rocprofiler-sdk accepts tools only before
  // the first of them is configured and before HIP starts. Nothing is recorded yet. Returns why
  // that is impossible; empty if it was done.
  std::string problem();

  // Returns whether problem() has registered this process. Any thread.
  bool is_registered() const noexcept { return registered_.load(std::memory_order_acquire); }

  // Begins to record. Returns false and the reason if rocprofiler-sdk refuses.
  bool begin(std::string& reason);

  // Waits until the work of all calls delivered so far has been delivered, at most a second; adds
  // to `problems` what is missing. The device's work must have ended.
  void wait_for_work(std::vector<std::string>& problems);

  // Ends recording. Records that have not been taken are lost.
  void end();

  // Returns the records delivered since the last call. *dropped: the number of those lost since,
  // because the buffer was full or too many wait.
  Batches take(uint64_t* dropped);

  // The demangled name of a kernel.
  std::string kernel_name(uint64_t kernel_id);
  // The GPU's number as HIP counts them; -1 for another agent.
  int32_t device_of(Handle agent) const;
  const std::vector<Agent>& gpus() const noexcept { return gpus_; }

  // The clock of the stamps, in ns; 0 if the library is not loaded.
  uint64_t now_ns() const noexcept;

  // Valid once registered.
  const RocprofilerLibrary& library() const { return *library_; }

 private:
  static ToolConfiguration* configure(uint32_t version, const char*, uint32_t, ClientId* client);
  static void add_kernel_name(CallbackRecord record, uint64_t*, void*);
  static void receive(Handle, Handle, RecordHeader** headers, size_t count, void*,
                      uint64_t dropped);

  void register_tool();
  // Sets up both contexts, while rocprofiler-sdk is being configured.
  void initialize();
  void add(RecordHeader** headers, size_t count, uint64_t dropped);

  static inline RocprofilerClient* only_ = nullptr;  // configure() has no argument of ours

  const std::vector<std::string> libraries_;
  const RocprofilerLibrary* library_ = nullptr;
  bool tried_ = false;
  std::atomic<bool> registered_{false};
  std::string problem_;
  Handle names_ = 0;  // context that is always active: kernels get their names when they are loaded
  Handle traces_ = 0;  // context that is active while collections are open
  Handle buffer_ = 0;
  std::vector<Agent> gpus_;

  std::mutex
      lock_;  // guards what follows; taken by callbacks, never held while the library is called
  Batches batches_;
  uint64_t dropped_ = 0;
  uint64_t library_drops_ = 0;               // as counted by the library, since its start
  std::unordered_set<uint64_t> unfinished_;  // correlations of calls whose work may be running
  std::unordered_map<uint64_t, std::string> kernel_names_;
  std::atomic<uint64_t> alive_bytes_{0};  // of the batches, also those that collections hold
};

}  // namespace rocm
FASTPROF_NAMESPACE_END
