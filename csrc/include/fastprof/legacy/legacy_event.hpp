// SPDX-License-Identifier: Apache-2.0
// LegacyEvent: one record of the exclusive profiler, and the time between two of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/legacy/device_stubs.hpp"
#include "fastprof/recorder/clock.hpp"

FASTPROF_NAMESPACE_BEGIN

// What a record stands for. The numbers are part of the byte format.
enum class LegacyEventKind : uint8_t {
  Mark = 0,
  PushRange = 1,
  PopRange = 2,
  MemoryAlloc = 3,  // an allocation (bytes > 0) or a free (bytes < 0)
  OutOfMemory = 4,  // a failed allocation: name "[OutOfMemory]", the bytes that were asked for
};

constexpr size_t kNumLegacyEventKinds = 5;

// "mark", "push", "pop", "memory_alloc", "out_of_memory". Static storage.
inline const char* legacy_event_kind_name(LegacyEventKind kind) noexcept {
  constexpr const char* names[kNumLegacyEventKinds] = {"mark", "push", "pop", "memory_alloc",
                                                       "out_of_memory"};
  const auto index = static_cast<size_t>(kind);
  return index < kNumLegacyEventKinds ? names[index] : "unknown";
}

// The marks by which a consumer finds its zero points.
constexpr const char* kStartProfileMark = "__start_profile";
constexpr const char* kStopProfileMark = "__stop_profile";
constexpr const char* kOutOfMemoryName = "[OutOfMemory]";  // of an OutOfMemory record
constexpr const char* kDeviceStartupMark =
    "__cuda_startup";  // warm-up of a device's event machinery
constexpr const char* kDeviceStartMark = "__cuda_start_event";  // zero of a device's times

struct LegacyEvent {
  LegacyEventKind kind = LegacyEventKind::Mark;
  RecordScope scope = RecordScope::FUNCTION;
  bool is_async = false;
  bool is_remote = false;     // came from another process: its times compare only with each other
  int32_t device_index = -1;  // of the device event; -1: no device event
  int64_t node_id = -1;       // the process it is from; -1: none was set
  std::string name;           // empty for pop and memory
  uint64_t thread_id = 0;     // logical id; for a pop, of the thread that ended the range
  uint64_t handle = 0;        // of the RecordFunction; 0 for marks and memory
  int64_t cpu_ns = 0;         // CLOCK_MONOTONIC of the process it is from
  int64_t device_us = -1;  // device time since that device's start, for remote events; -1: not set
  int64_t cpu_memory_bytes = 0;
  int64_t device_memory_bytes = 0;
  int64_t sequence_nr = -1;
  uint64_t forward_thread_id = 0;
  uint64_t flops = 0;                        // 0: not estimated
  std::vector<std::vector<int64_t>> shapes;  // one per argument, [] for what is not a tensor
  std::vector<std::string> stack;            // innermost frame first
  DeviceEvent device_event;                  // local events only
  const DeviceStubs* stubs = nullptr;        // what recorded device_event

  // Whether begin and end of device work are known at this record.
  bool has_device_event() const noexcept {
    return device_event != nullptr || (is_remote && device_index >= 0);
  }

  // Stamps the record: with `device_stubs`, a device event and the CPU time it was recorded at;
  // else the CPU time now.
  void record(const DeviceStubs* device_stubs) {
    if (device_stubs != nullptr) {
      device_stubs->record(&device_index, &device_event, &cpu_ns);
      stubs = device_stubs;
    } else {
      cpu_ns = clock_ns(CLOCK_MONOTONIC);
    }
  }

  // Microseconds of CPU time from this record to `end`.
  double cpu_elapsed_us(const LegacyEvent& end) const noexcept {
    return static_cast<double>(end.cpu_ns - cpu_ns) / 1000.0;
  }

  // Microseconds of device time from this record to `end`. Both need a device event on the same
  // device (ValueError), and both must be local or both remote (ValueError): a remote process's
  // device events are not ours to compare.
  double device_elapsed_us(const LegacyEvent& end) const {
    if (!has_device_event() || !end.has_device_event())
      raise<ValueError>(
          "Events were not recorded for a device; enable the profiler with state CUDA or "
          "PRIVATEUSE1, and note that "
          "views and sizes are excluded from device timing");
    if (device_index != end.device_index)
      raise<ValueError>("Events are not on the same device: " + std::to_string(device_index) +
                        " vs " + std::to_string(end.device_index));
    if (is_remote != end.is_remote)
      raise<ValueError>(
          "one event is remote and the other is not; device times compare only within one process");
    if (is_remote) {
      if (device_us < 0 || end.device_us < 0)
        raise<ValueError>("a remote event has no device time (device_us is negative)");
      return static_cast<double>(end.device_us - device_us);
    }
    return stubs->elapsed_us(device_event, end.device_event);
  }
};

// The events of one thread, in the order they were recorded; for a remote list, as it was sent.
using LegacyEventList = std::vector<LegacyEvent>;
// What disable_profiler returns: the local lists by ascending thread id, then the remote ones in
// the order they came.
using LegacyEventLists = std::vector<LegacyEventList>;

FASTPROF_NAMESPACE_END
