// SPDX-License-Identifier: Apache-2.0
// ExclusiveProfiler: state of one profiler run, shared by the thread that enabled it and the
// threads it was propagated to. Converts RecordFunctions, marks and memory reports to LegacyEvents,
// or forwards them to NVTX or ITT.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/legacy/device_stubs.hpp"
#include "fastprof/legacy/flops.hpp"
#include "fastprof/legacy/input_shapes.hpp"
#include "fastprof/legacy/legacy_event.hpp"
#include "fastprof/legacy/nvtx_text.hpp"
#include "fastprof/legacy/profiler_state_base.hpp"
#include "fastprof/legacy/range_event_list.hpp"
#include "fastprof/legacy/stack_provider.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns whether ranges of this name never record device events: they only create a view or read
// metadata, which costs less than an event.
inline bool excluded_from_device_timing(std::string_view name) noexcept {
  constexpr std::string_view names[] = {"aten::view",          "aten::t",
                                        "aten::transpose",     "aten::stride",
                                        "aten::empty",         "aten::empty_like",
                                        "aten::empty_strided", "aten::as_strided",
                                        "aten::expand",        "aten::resize_",
                                        "aten::squeeze",       "aten::unsqueeze",
                                        "aten::slice",         "aten::_unsafe_view",
                                        "aten::size"};
  for (const std::string_view excluded : names)
    if (name == excluded) return true;
  return false;
}

namespace legacy_detail {

// Set while the calling thread records. Memory that the profiler itself allocates is not reported
// to it, so an allocator that reports from inside malloc neither recurses nor deadlocks.
inline thread_local bool t_recording = false;

// Sets t_recording for a scope.
class RecordingGuard {
 public:
  RecordingGuard() noexcept : before_(t_recording) { t_recording = true; }
  ~RecordingGuard() { t_recording = before_; }
  RecordingGuard(const RecordingGuard&) = delete;
  RecordingGuard& operator=(const RecordingGuard&) = delete;

 private:
  bool before_;
};

inline uint32_t g_warned_devices = 0;  // relaxed; only the first change matters

// Warns once that memory of such a device is not counted.
inline void warn_uncounted_device(Device device) noexcept {
  if (__atomic_exchange_n(&g_warned_devices, 1u, __ATOMIC_RELAXED) != 0) return;
  std::fprintf(stderr,
               "fastprof: memory of device type %s is not counted by the exclusive profiler, only "
               "that of cpu, mkldnn, ideep, cuda and hip; use a Session for it (reported once)\n",
               device_type_name(device.type));
}

}  // namespace legacy_detail

// The profiler of one run. Threads that share it may call its member functions concurrently.
class ExclusiveProfiler final : public ProfilerStateBase {
 public:
  // `stubs`: the result of require_device_stubs(config.state).
  ExclusiveProfiler(ProfilerConfig config, const DeviceStubs* stubs)
      : config_(std::move(config)), stubs_(stubs), buffers_(std::make_unique<Buffers>()) {}

  ~ExclusiveProfiler() override {
    // In a forked child: a thread of the parent may have been modifying the buffers, so leak them.
    if (inherited()) (void)buffers_.release();
  }
  ExclusiveProfiler(const ExclusiveProfiler&) = delete;
  ExclusiveProfiler& operator=(const ExclusiveProfiler&) = delete;

  const ProfilerConfig& config() const noexcept override { return config_; }
  bool inherited() const noexcept override { return load_relaxed(&state()->pid) != pid_; }

  void push_range(const RecordFunction& function) override {
    if (off()) return;
    const legacy_detail::RecordingGuard guard;
    if (config_.passes_on()) {
      pass_on_push(function);
      return;
    }
    LegacyEvent event;
    event.kind = LegacyEventKind::PushRange;
    event.name = function.name();
    event.thread_id = function.thread_id();
    event.handle = function.handle();
    event.node_id = function.node_id();
    event.is_async = function.is_async();
    event.sequence_nr = function.sequence_number();
    event.forward_thread_id = function.forward_thread_id();
    event.scope = function.scope();
    if (config_.report_input_shapes) event.shapes = input_shapes(function.inputs());
    if (config_.with_flops) event.flops = estimate_flops(function.name(), function.inputs());
    // A backward function's source location is that of its forward function, which has its own
    // stack.
    if (config_.with_stack && function.scope() != RecordScope::BACKWARD_FUNCTION) {
      if (const StackProvider provider = stack_provider()) provider(&event.stack);
    }
    // Stamped last, so that the range excludes the time taken above.
    event.record(range_stubs(function));
    list_of(function.thread_id()).record(std::move(event));
  }

  void pop_range(const RecordFunction& function) override {
    if (off()) return;
    const legacy_detail::RecordingGuard guard;
    if (config_.passes_on()) {
      stubs_->range_pop();
      if (tracks_producers()) buffers_->producers.produced(function.handle(), function.outputs());
      return;
    }
    LegacyEvent event;
    event.record(range_stubs(function));
    event.kind = LegacyEventKind::PopRange;
    event.thread_id = current_thread_id();
    event.handle = function.handle();
    event.node_id = function.node_id();
    // Stored in the list of the begin event, whichever thread ends the range.
    list_of(function.thread_id()).record(std::move(event));
  }

  void mark(const char* name, bool include_device) override {
    if (off()) return;
    const legacy_detail::RecordingGuard guard;
    if (config_.passes_on()) {
      stubs_->mark(name);
      return;
    }
    LegacyEvent event;
    event.record(include_device && config_.times_device() ? stubs_ : nullptr);
    event.kind = LegacyEventKind::Mark;
    event.name = name;
    event.thread_id = current_thread_id();
    event.node_id = default_node_id();
    list_of(event.thread_id).record(std::move(event));
  }

  // Records the time zero of each device. The first events are slower, so some are recorded and
  // waited for beforehand.
  void mark_device_start() {
    if (!config_.times_device()) return;
    constexpr int warm_ups = 5;
    for (int i = 0; i < warm_ups; ++i) {
      stubs_->on_each_device([this](int32_t) {
        mark(kDeviceStartupMark, true);
        stubs_->synchronize();
      });
    }
    stubs_->on_each_device([this](int32_t) { mark(kDeviceStartMark, true); });
  }

  void add_remote_events(LegacyEventLists lists) override {
    if (off()) return;
    const legacy_detail::RecordingGuard guard;
    const std::lock_guard<std::mutex> lock(buffers_->lock);
    for (LegacyEventList& list : lists) {
      for (LegacyEvent& event : list) event.is_remote = true;
      buffers_->remote.push_back(std::move(list));
    }
  }

  LegacyEventLists consolidate() override {
    const legacy_detail::RecordingGuard guard;
    LegacyEventLists result;
    if (off()) return result;
    const std::lock_guard<std::mutex> lock(buffers_->lock);
    for (auto& entry : buffers_->lists) {
      LegacyEventList events = entry.second.consolidate();
      if (!events.empty()) result.push_back(std::move(events));
    }
    for (LegacyEventList& list : buffers_->remote) result.push_back(std::move(list));
    buffers_->remote.clear();
    return result;
  }

  bool memory_profiling_enabled() const noexcept override {
    return config_.profile_memory && !off();
  }

  void report_memory_usage(void* ptr, int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                           uint64_t total_reserved_bytes, Device device) noexcept override {
    (void)total_allocated_bytes, (void)total_reserved_bytes;
    record_memory_event(LegacyEventKind::MemoryAlloc, ptr, alloc_size_bytes, device);
  }

  void report_out_of_memory(int64_t alloc_size_bytes, uint64_t total_allocated_bytes,
                            uint64_t total_reserved_bytes, Device device) noexcept override {
    (void)total_allocated_bytes, (void)total_reserved_bytes;
    record_memory_event(LegacyEventKind::OutOfMemory, nullptr, alloc_size_bytes, device);
  }

  void set_callback_handle(CallbackHandle handle) noexcept override {
    __atomic_store_n(&callback_handle_, handle, __ATOMIC_RELAXED);
  }
  CallbackHandle callback_handle() const noexcept override {
    return __atomic_load_n(&callback_handle_, __ATOMIC_RELAXED);
  }

 private:
  bool off() const noexcept { return config_.disabled() || inherited(); }

  bool tracks_producers() const noexcept {
    return config_.state == ProfilerState::NVTX && config_.report_input_shapes;
  }

  // Returns the stubs that record device events for this range, or null.
  const DeviceStubs* range_stubs(const RecordFunction& function) const noexcept {
    return config_.times_device() && !excluded_from_device_timing(function.name()) ? stubs_
                                                                                   : nullptr;
  }

  void pass_on_push(const RecordFunction& function) {
    if (config_.state == ProfilerState::ITT) {
      stubs_->range_push(function.name_c_str());
      return;
    }
    std::vector<std::vector<int64_t>> shapes;
    std::vector<ProducerOp> producers;
    if (config_.report_input_shapes) {
      shapes = input_shapes(function.inputs(), true);
      producers = buffers_->producers.of_inputs(function.inputs());
    }
    stubs_->range_push(nvtx_range_text(function.name(), function.sequence_number(),
                                       function.handle(), shapes, producers)
                           .c_str());
  }

  void record_memory_event(LegacyEventKind kind, void* ptr, int64_t alloc_size_bytes,
                           Device device) noexcept {
    if (off() || !config_.profile_memory || legacy_detail::t_recording) return;
    const legacy_detail::RecordingGuard guard;
#if FASTPROF_EXCEPTIONS
    try {
#endif
      if (config_.passes_on()) {
        if (alloc_size_bytes < 0 && tracks_producers()) buffers_->producers.freed(ptr);
        return;
      }
      LegacyEvent event;
      switch (device.type) {
        case DeviceType::CPU:
        case DeviceType::MKLDNN:
        case DeviceType::IDEEP:
          event.cpu_memory_bytes = alloc_size_bytes;
          break;
        case DeviceType::CUDA:
        case DeviceType::HIP:
          event.device_memory_bytes = alloc_size_bytes;
          break;
        default:
          if (kind == LegacyEventKind::MemoryAlloc) {
            legacy_detail::warn_uncounted_device(device);
            return;
          }
          event.device_memory_bytes = alloc_size_bytes;
      }
      // No device event, because the allocator may hold locks that the device library needs.
      event.record(nullptr);
      event.kind = kind;
      if (kind == LegacyEventKind::OutOfMemory) event.name = kOutOfMemoryName;
      event.thread_id = current_thread_id();
      event.node_id = default_node_id();
      list_of(event.thread_id).record(std::move(event));
#if FASTPROF_EXCEPTIONS
    } catch (const std::exception& error) {
      std::fprintf(stderr, "fastprof: a memory report was lost: %s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "fastprof: a memory report was lost\n");
    }
#endif
  }

  // The reference stays valid: lists are never removed.
  RangeEventList& list_of(uint64_t thread_id) {
    const std::lock_guard<std::mutex> lock(buffers_->lock);
    return buffers_->lists[thread_id];
  }

  struct Buffers {
    TensorProducers producers;
    std::mutex lock;                           // guards the two below; taken before a list's own
    std::map<uint64_t, RangeEventList> lists;  // by logical thread id
    LegacyEventLists remote;
  };

  const ProfilerConfig config_;
  const DeviceStubs* const stubs_;
  const uint64_t pid_ = load_relaxed(&state()->pid);
  CallbackHandle callback_handle_ = kInvalidCallbackHandle;  // relaxed
  std::unique_ptr<Buffers> buffers_;
};

FASTPROF_NAMESPACE_END
