// SPDX-License-Identifier: Apache-2.0
// Profiler of Metal work: begin and end functions around kernels, graphs, copies and ops that fall
// back to the CPU. Makes signposts for Instruments, log lines and statistics, as PyTorch's
// MPSProfiler does, and reports to an ExecutionObserver.
//
//   auto profiler = metal::Profiler::make(platform, metal::options_of_environment());
//   profiler->begin_profile_kernel(pipeline, "add", {a, b}, &stream);
//   encode();
//   profiler->end_profile_kernel(pipeline, &stream, metal::SyncType::COMMIT);
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/metal/buffer_texts.hpp"
#include "fastprof/metal/execution.hpp"
#include "fastprof/metal/observer.hpp"
#include "fastprof/metal/options.hpp"
#include "fastprof/metal/platform.hpp"
#include "fastprof/metal/run_ledger.hpp"
#include "fastprof/metal/signal_aware_lock.hpp"
#include "fastprof/metal/statistics.hpp"
#include "fastprof/metal/tables.hpp"
#include "fastprof/metal/texts.hpp"
#include "fastprof/metal/trace_settings.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// All functions may be called from any thread. begin and end functions cost one load and a branch
// while no option and no observer requests their kind of work. Handlers of command buffers hold a
// reference, so the profiler lives until the last has run. `stream` is null for the platform's
// default stream.
class Profiler : public std::enable_shared_from_this<Profiler> {
 public:
  // platform must outlive the profiler. options: raises ValueError if they are invalid. print:
  // receives lines and tables, each with its newline; by default they go to standard error.
  static std::shared_ptr<Profiler> make(Platform& platform, const Options& options = {},
                                        std::function<void(const std::string&)> print = {}) {
    return std::shared_ptr<Profiler>(new Profiler(platform, options, std::move(print)));
  }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // ---- what is profiled ----

  Options options() const {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    return settings_.options();
  }
  bool is_operation_profiling_enabled() const noexcept { return settings_.wants(kOperations); }
  bool is_copy_profiling_enabled() const noexcept { return settings_.wants(kCopies); }
  bool is_cpu_fallback_profiling_enabled() const noexcept { return settings_.wants(kFallbacks); }
  bool is_signpost_tracing_enabled() const { return options().signpost_tracing(); }

  // Begins to trace all types of signposts. mode: "interval", "event", or both joined by a comma.
  // wait_until_completed: each end commits its command buffer and waits for it. Raises ValueError
  // for another mode, StateError if signposts are traced already, UnavailableError if the system
  // refuses a log.
  void start_trace(std::string_view mode, bool wait_until_completed) {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    settings_.start_trace(mode, wait_until_completed);
  }
  // Ends what start_trace() or the environment began. Statistics and lines go on.
  void stop_trace() {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    settings_.stop_trace();
  }
  // Replaces what is logged: bits of LogOptions. Raises ValueError for others.
  void set_log_options(uint32_t log) {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    settings_.set_log_options(log);
  }
  // From now on all work is reported to the observer; null: to none.
  void set_observer(std::shared_ptr<ExecutionObserver> observer) {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    settings_.set_observer(std::move(observer));
  }
  // From now on command buffers that have no label get one: the names of the profiled works in
  // them. Whoever observes the process's commits names rows by it, so this is how works of a
  // library have their names in profiles that another library or Python records.
  void label_buffers(bool on) {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    settings_.label_buffers(on);
  }

  // ---- kernels and graphs ----

  // handle: identifies the kernel (its pipeline state), for as long as the process lives. name: of
  // the kernel, which becomes "name:Device:Type[sizes]:..." with tensors. Returns the profile id,
  // unique among kernels, or 0 if operations are not profiled. A begin on the same thread and
  // handle replaces one that was not ended.
  uint64_t begin_profile_kernel(const void* handle, std::string_view name,
                                Span<const TensorDescription> tensors = {},
                                Stream* stream = nullptr) {
    if (!settings_.wants(kOperations)) return 0;
    return begin_operation(handle, kernel_text(name, tensors), false, stream);
  }
  // The same for a graph (an MPSGraph); ids are unique among graphs. end_profile_kernel() ends it.
  uint64_t begin_profile_graph(const void* handle, std::string_view key, Stream* stream = nullptr) {
    if (!settings_.wants(kOperations)) return 0;
    return begin_operation(handle, std::string(key), true, stream);
  }
  // Begins the interval of a graph when its command buffer is scheduled: call it when the graph is
  // about to be encoded. No effect if intervals include scheduling or are not used.
  void begin_profile_gpu_interval(const void* handle, Stream* stream = nullptr) {
    if (!settings_.wants(kOperations)) return;
    std::shared_ptr<Execution> execution;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      if ((settings_.options().profile & USE_INTERVALS) == 0 ||
          (settings_.options().profile & INCLUDE_SCHEDULE_INTERVAL) != 0)
        return;
      execution = ledger_.find_operation(handle);
    }
    if (execution != nullptr) begin_interval_when_scheduled(execution, stream);
  }
  // Ends the run that the thread began last with this handle. sync: what happens to the command
  // buffer; WAIT_UNTIL_COMPLETED makes it COMMIT_AND_WAIT. No effect without a begin.
  void end_profile_kernel(const void* handle, Stream* stream = nullptr,
                          SyncType sync = SyncType::NONE) {
    std::shared_ptr<Execution> execution;
    if (__atomic_load_n(&open_count_, __ATOMIC_RELAXED) == 0) return;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      execution = ledger_.take_operation(handle);
      publish_open_count();
    }
    if (execution != nullptr) end_on_gpu(execution, stream, sync);
  }

  // ---- whole command buffers ----

  // Profiles a command buffer that a program is about to commit, as an operation named after its
  // label, unless works in it are profiled by themselves. Returns null if it is not profiled; else
  // the argument of end_command_buffer(), to be called after the commit. command_buffers.hpp calls
  // both.
  std::shared_ptr<Execution> begin_command_buffer(Stream& stream, const std::string& label) {
    if (!settings_.wants(kOperations)) return nullptr;
    const std::string name = label.empty() ? "command buffer" : label;
    const void* handle = nullptr;
    bool waits = false;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      if (works_in_buffers_.count(stream.buffer()) != 0) return nullptr;
      handle = &*labels_.insert(name).first;  // the label is the operation's identity
      waits = (settings_.options().profile & WAIT_UNTIL_COMPLETED) != 0;
    }
    std::shared_ptr<Execution> execution = make_operation(handle, name, false, true);
    begin_execution(execution, &stream, true);
    if (execution->observed != 0) execution->queue = stream.queue();
    end_when_completed(execution, stream);
    if (waits) stream.synchronize(SyncType::COMMIT_AND_WAIT);
    return execution;
  }
  void end_command_buffer(const Execution& execution) {
    if (execution.observed != 0) execution.observer->ended(execution.observed, &execution.queue);
  }

  // ---- copies ----

  // Returns the profile id, to be passed to end_profile_copy(), or 0 if copies are not profiled.
  // uses_blitter: the GPU copies; without it, the CPU's time is measured.
  uint64_t begin_profile_copy(const CopyEnd& source, const CopyEnd& destination,
                              uint64_t length_bytes, Stream* stream = nullptr,
                              bool is_non_blocking = false, bool uses_blitter = true) {
    if (!settings_.wants(kCopies)) return 0;
    std::shared_ptr<Execution> execution;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      const std::string ends = texts_.of_copy(source, destination, settings_.options().log);
      execution =
          ledger_.make_copy(source, destination, ends, length_bytes, is_non_blocking, uses_blitter);
    }
    // A copy by memcpy() that nobody waits for has no signposts and lines, only statistics.
    begin_execution(execution, stream, uses_blitter || !is_non_blocking);
    const std::lock_guard<SignalAwareLock> hold(lock_);
    ledger_.open_copy(execution);
    return execution->work.profile_id;
  }
  // profile_id: of begin_profile_copy(); 0 has no effect. Raises StateError for a copy that is not
  // open.
  void end_profile_copy(uint64_t profile_id, SyncType sync, Stream* stream = nullptr) {
    if (profile_id == 0) return;
    std::shared_ptr<Execution> execution;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      execution = ledger_.take_copy(profile_id);
    }
    if (execution == nullptr)
      raise<StateError>("the copy " + std::to_string(profile_id) +
                        " is not open: end each copy once, with the number of its begin");
    if (execution->work.on_gpu)
      end_on_gpu(execution, stream, sync);
    else
      end_on_cpu(execution);
  }

  // ---- ops that fall back to the CPU ----

  // tensors: those that are copied, whose bytes are the fallback's copy overhead. Returns the
  // profile id of the op, or 0 if fallbacks are not profiled.
  uint64_t begin_profile_cpu_fallback(std::string_view op_name,
                                      Span<const TensorDescription> tensors) {
    if (!settings_.wants(kFallbacks)) return 0;
    const std::string text = kernel_text(op_name, tensors);
    uint64_t copied_bytes = 0;
    for (size_t i = 0; i < tensors.size(); ++i) copied_bytes += size_bytes(tensors[i]);
    std::shared_ptr<Execution> execution;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      execution = ledger_.make_fallback(op_name, text, copied_bytes);
    }
    begin_execution(execution, nullptr, true);
    const std::lock_guard<SignalAwareLock> hold(lock_);
    ledger_.open_fallback(op_name, execution);
    return execution->work.profile_id;
  }
  // Ends the fallback of this op that the thread began. No effect without one.
  void end_profile_cpu_fallback(std::string_view op_name) {
    std::shared_ptr<Execution> execution;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      execution = ledger_.take_fallback(op_name);
      if (execution == nullptr) return;
    }
    end_on_cpu(execution);
  }

  // ---- results ----

  Statistics statistics() const {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    return ledger_.statistics();
  }
  // Commits the encoded work of all streams and waits until all ended work has completed. Returns
  // the number of command buffers that had not completed after timeout_s seconds.
  uint64_t wait_for_pending(double timeout_s = 10.0) {
    if (statistics().pending_count != 0) platform_.synchronize_all();
    std::unique_lock<SignalAwareLock> hold(lock_);
    none_pending_.wait_for(hold, std::chrono::duration<double>(timeout_s),
                           [this] { return ledger_.statistics().pending_count == 0; });
    return ledger_.statistics().pending_count;
  }
  // Prints the tables that the log options name, the first time it is called. wait: for work that
  // has not completed; not from a signal handler.
  void log_statistics(bool wait) {
    if (logged_.exchange(true)) return;
    const Options now = options();
    if (!now.statistics()) return;
    const uint64_t pending = wait ? wait_for_pending() : 0;
    std::string text = tables_text(statistics(), now.log);
    if (pending != 0)
      text += "fastprof: " + std::to_string(pending) +
              " command buffers had not completed after 10 s; their times are not in the tables\n";
    print_(text);
  }
  // For a signal handler; see SignalAwareLock.
  bool defer_if_locked(int signal) noexcept { return lock_.defer_if_held(signal); }

 private:
  Profiler(Platform& platform, const Options& options,
           std::function<void(const std::string&)> print)
      : platform_(platform), print_(std::move(print)), settings_(platform.signposts(), options) {
    if (!print_) print_ = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  }

  Stream& stream_of(Stream* stream) {
    Stream* const chosen = stream != nullptr ? stream : platform_.default_stream();
    if (chosen == nullptr)
      raise<StateError>("there is no default stream of Metal work: pass the stream that is used");
    return *chosen;
  }

  std::string kernel_text(std::string_view name, Span<const TensorDescription> tensors) {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    return texts_.of_kernel(name, tensors, settings_.options().log);
  }

  // A new run of a handle.
  std::shared_ptr<Execution> make_operation(const void* handle, const std::string& name,
                                            bool is_graph, bool is_commit) {
    const std::lock_guard<SignalAwareLock> hold(lock_);
    std::shared_ptr<Execution> execution = ledger_.make_operation(handle, name, is_graph);
    execution->work.is_commit = is_commit;
    return execution;
  }
  uint64_t begin_operation(const void* handle, const std::string& name, bool is_graph,
                           Stream* stream) {
    const std::shared_ptr<Execution> execution = make_operation(handle, name, is_graph, false);
    begin_execution(execution, stream, true);
    const std::lock_guard<SignalAwareLock> hold(lock_);
    ledger_.open_operation(handle, execution);
    publish_open_count();
    return execution->work.profile_id;
  }
  // Lock held.
  void publish_open_count() noexcept {
    __atomic_store_n(&open_count_, ledger_.open_operations(), __ATOMIC_RELAXED);
  }

  void begin_execution(const std::shared_ptr<Execution>& execution, Stream* stream, bool visible) {
    Options now;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      now = settings_.options();
      execution->observer = settings_.observer();
    }
    const WorkKind kind = execution->work.kind;
    execution->visible = visible;
    if (visible && prints_info(now, kind, false)) print_(execution->text + "\n");
    if (visible && (now.signposts & signpost_type(kind)) != 0) {
      Signposts& signposts = platform_.signposts();
      if ((now.profile & USE_EVENTS) != 0)
        execution->event_id = signposts.make_id(SignpostLog::events, nullptr);
      if ((now.profile & USE_INTERVALS) != 0) {
        execution->interval_id = signposts.make_id(SignpostLog::intervals, nullptr);
        if ((now.profile & INCLUDE_SCHEDULE_INTERVAL) != 0 || !execution->work.on_gpu)
          begin_interval(*execution, signposts);
        else if (kind != WorkKind::graph)  // a graph's begins in begin_profile_gpu_interval()
          begin_interval_when_scheduled(execution, stream);
      }
    }
    execution->begin_s = platform_.host_time_s();
    if (execution->observer != nullptr)
      execution->observed = execution->observer->begun(execution->work);
  }

  void begin_interval_when_scheduled(const std::shared_ptr<Execution>& execution, Stream* stream) {
    stream_of(stream).on_scheduled([self = shared_from_this(), execution] {
      if ((self->options().signposts & signpost_type(execution->work.kind)) != 0)
        begin_interval(*execution, self->platform_.signposts());
    });
  }

  void end_on_gpu(const std::shared_ptr<Execution>& execution, Stream* given, SyncType sync) {
    Stream& stream = stream_of(given);
    bool labels = false;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      labels = settings_.labels_buffers();
      if ((settings_.options().profile & WAIT_UNTIL_COMPLETED) != 0)
        sync = SyncType::COMMIT_AND_WAIT;
    }
    if (labels) stream.add_label(execution->work.name);
    const Queue queue = execution->observed != 0 ? stream.queue() : Queue();
    end_when_completed(execution, stream);
    stream.synchronize(sync);
    if (execution->observed != 0) execution->observer->ended(execution->observed, &queue);
  }
  void end_when_completed(const std::shared_ptr<Execution>& execution, Stream& stream) {
    const uint64_t buffer = stream.buffer();
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      ++ledger_.statistics().pending_count;
      ++works_in_buffers_[buffer];
    }
    stream.on_completed([self = shared_from_this(), execution, buffer](const BufferTimes& times) {
      if (execution->observed != 0) execution->observer->completed(execution->observed, times);
      self->end_execution(*execution, times.gpu_ms(), times.kernel_ms(), !times.error.empty());
      const std::lock_guard<SignalAwareLock> hold(self->lock_);
      const auto at = self->works_in_buffers_.find(buffer);
      if (--at->second == 0) self->works_in_buffers_.erase(at);
      if (--self->ledger_.statistics().pending_count == 0) self->none_pending_.notify_all();
    });
  }
  void end_on_cpu(const std::shared_ptr<Execution>& execution) {
    const double cpu_ms = (platform_.host_time_s() - execution->begin_s) * 1e3;
    if (execution->observed != 0) execution->observer->ended(execution->observed, nullptr);
    end_execution(*execution, 0, cpu_ms > 0 ? cpu_ms : 0, false);
  }

  // other_ms: scheduling time, or the CPU's for work that it did.
  void end_execution(Execution& execution, double gpu_ms, double other_ms, bool failed) {
    Options now;
    {
      const std::lock_guard<SignalAwareLock> hold(lock_);
      now = settings_.options();
      ledger_.add_times(execution, gpu_ms, other_ms, failed);
    }
    const std::string text = text_at_end(execution, now, gpu_ms, other_ms, failed);
    if (execution.visible && prints_info(now, execution.work.kind, true)) print_(text + "\n");
    end_signposts(execution, now, text, platform_.signposts());
  }

  Platform& platform_;
  std::function<void(const std::string&)> print_;
  mutable SignalAwareLock lock_;
  std::condition_variable_any none_pending_;
  TraceSettings settings_;
  size_t open_count_ = 0;  // relaxed atomic: number of runs that have not ended
  RunLedger ledger_;
  BufferTexts texts_;
  std::unordered_map<uint64_t, size_t> works_in_buffers_;  // by command buffer, not completed
  std::set<std::string> labels_;                           // of whole command buffers
  std::atomic<bool> logged_{false};
};

}  // namespace metal
FASTPROF_NAMESPACE_END
