// SPDX-License-Identifier: Apache-2.0
// RunLedger: the Metal profiler's bookkeeping. Makes the Execution of each kernel, graph, copy and
// fallback, finds those that have not ended, and adds what they took to the statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/metal/buffer_texts.hpp"
#include "fastprof/metal/execution.hpp"
#include "fastprof/metal/observer.hpp"
#include "fastprof/metal/statistics.hpp"
#include "fastprof/metal/texts.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// Thread rule: the caller holds the profiler's lock. A begun run is known by its handle (or name)
// and thread, a copy by its profile id.
class RunLedger {
 public:
  using Run = std::shared_ptr<Execution>;

  Statistics& statistics() noexcept { return statistics_; }
  const Statistics& statistics() const noexcept { return statistics_; }

  // ---- kernels and graphs ----

  // Makes a run of a handle, which identifies the operation. is_graph: at its first run.
  Run make_operation(const void* handle, const std::string& name, bool is_graph) {
    const auto [at, fresh] = operation_index_.try_emplace(handle, statistics_.operations.size());
    if (fresh) {
      statistics_.operations.emplace_back();
      OperationStatistics& info = statistics_.operations.back();
      info.is_graph = is_graph;
      info.profile_id = is_graph ? ++statistics_.graph_count : ++statistics_.kernel_count;
    }
    OperationStatistics& info = statistics_.operations[at->second];
    ++info.run_count;
    info.name = name;
    auto run = std::make_shared<Execution>();
    run->work.kind = info.is_graph ? WorkKind::graph : WorkKind::kernel;
    run->work.profile_id = info.profile_id;
    run->work.name = name;
    run->index = at->second;
    run->text =
        name + numbers_text(info.is_graph ? "G" : "K", info.profile_id, info.run_count) + ")";
    return run;
  }
  // Replaces a run of this thread and handle that was not ended.
  void open_operation(const void* handle, const Run& run) {
    operations_[{handle, std::this_thread::get_id()}] = run;
  }
  // The open run of a handle: this thread's, else anybody's; null if there is none.
  Run find_operation(const void* handle) {
    const auto at = position(handle);
    return at == operations_.end() ? nullptr : at->second;
  }
  Run take_operation(const void* handle) { return take(operations_, position(handle)); }
  size_t open_operations() const noexcept { return operations_.size(); }

  // ---- copies ----

  // ends_text: of both ends, for lines and signposts.
  Run make_copy(const CopyEnd& source, const CopyEnd& destination, const std::string& ends_text,
                uint64_t length_bytes, bool is_non_blocking, bool uses_blitter) {
    auto run = std::make_shared<Execution>();
    Work& work = run->work;
    work.kind = WorkKind::copy;
    work.profile_id = ++statistics_.copy_count;
    work.bytes = length_bytes;
    work.copy_kind = !destination.lies_on_device() ? CopyKind::mps_to_cpu
                     : !source.lies_on_device()    ? CopyKind::cpu_to_mps
                                                   : CopyKind::mps_to_mps;
    work.on_gpu = uses_blitter;
    work.name = copy_kind_name(work.copy_kind);
    run->blocking = !is_non_blocking;
    run->text = std::string(uses_blitter ? "Blit" : "Mem") + "Copy" +
                (is_non_blocking ? "" : "Sync") + ": " + ends_text +
                " (len=" + size_text(length_bytes) + ")";
    return run;
  }
  void open_copy(const Run& run) { copies_.emplace(run->work.profile_id, run); }
  Run take_copy(uint64_t profile_id) { return take(copies_, copies_.find(profile_id)); }

  // ---- ops that fall back to the CPU ----

  // text: the op with its tensors. copied_bytes: of the tensors.
  Run make_fallback(std::string_view op_name, const std::string& text, uint64_t copied_bytes) {
    const std::string name(op_name);
    const auto [at, fresh] = fallback_index_.try_emplace(name, statistics_.fallbacks.size());
    if (fresh) {
      statistics_.fallbacks.emplace_back();
      statistics_.fallbacks.back().profile_id = ++statistics_.fallback_count;
      statistics_.fallbacks.back().op_name = name;
    }
    FallbackStatistics& info = statistics_.fallbacks[at->second];
    ++info.run_count;
    info.copy_overhead_bytes += copied_bytes;
    auto run = std::make_shared<Execution>();
    run->work.kind = WorkKind::cpu_fallback;
    run->work.profile_id = info.profile_id;
    run->work.name = name;
    run->work.on_gpu = false;
    run->work.bytes = copied_bytes;
    run->index = at->second;
    run->text = "CPU Fallback::" + text + numbers_text("", info.profile_id, info.run_count) +
                ", CopyOverhead=" + size_text(copied_bytes) + ")";
    return run;
  }
  void open_fallback(std::string_view op_name, const Run& run) {
    fallbacks_[{std::string(op_name), std::this_thread::get_id()}] = run;
  }
  // This thread's; null if there is none.
  Run take_fallback(std::string_view op_name) {
    return take(fallbacks_, fallbacks_.find({std::string(op_name), std::this_thread::get_id()}));
  }

  // ---- sums ----

  // other_ms: scheduling time, or the CPU's for work that it did. failed: on the GPU.
  void add_times(const Execution& run, double gpu_ms, double other_ms, bool failed) {
    if (failed) ++statistics_.failed_count;
    const Work& work = run.work;
    if (work.kind == WorkKind::cpu_fallback) {
      statistics_.fallbacks[run.index].cpu_ms += other_ms;
    } else if (work.kind == WorkKind::copy) {
      CopyStatistics& sum = statistics_.copies[static_cast<int>(work.copy_kind)];
      ++sum.count;
      sum.bytes += work.bytes;
      sum.gpu_ms += gpu_ms;
      sum.scheduling_ms += other_ms;
      if (work.bytes <= kScalarBytes) {
        ++sum.scalar_count;
        sum.scalar_gpu_ms += gpu_ms;
      }
      if (run.blocking) ++sum.blocking_count;
      if (!work.on_gpu) ++sum.memcpy_count;
    } else {
      OperationStatistics& sum = statistics_.operations[run.index];
      ++sum.completed_count;
      sum.gpu_ms += gpu_ms;
      sum.scheduling_ms += other_ms;
    }
  }

 private:
  using Operations = std::map<std::pair<const void*, std::thread::id>, Run>;

  // " (id=K1, run=2", without the closing parenthesis.
  static std::string numbers_text(const char* letter, uint64_t profile_id, uint64_t run_count) {
    return std::string(" (id=") + letter + std::to_string(profile_id) +
           ", run=" + std::to_string(run_count);
  }
  Operations::iterator position(const void* handle) {
    auto at = operations_.find({handle, std::this_thread::get_id()});
    if (at == operations_.end()) {
      at = operations_.lower_bound({handle, std::thread::id()});
      if (at != operations_.end() && at->first.first != handle) at = operations_.end();
    }
    return at;
  }
  template <class Map>
  static Run take(Map& runs, typename Map::iterator at) {
    if (at == runs.end()) return nullptr;
    Run run = std::move(at->second);
    runs.erase(at);
    return run;
  }

  Statistics statistics_;
  std::unordered_map<const void*, size_t> operation_index_;
  std::unordered_map<std::string, size_t> fallback_index_;
  Operations operations_;
  std::map<std::pair<std::string, std::thread::id>, Run> fallbacks_;
  std::unordered_map<uint64_t, Run> copies_;
};

}  // namespace metal
FASTPROF_NAMESPACE_END
