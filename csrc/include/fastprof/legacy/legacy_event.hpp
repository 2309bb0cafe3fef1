// SPDX-License-Identifier: Apache-2.0
// LegacyEvent: one record of the exclusive profiler, and functions for the time between two
// records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/legacy/device_stubs.hpp"
#include "fastprof/recorder/state/clock.hpp"

FASTPROF_NAMESPACE_BEGIN

// Kind of a record. The numbers are part of the serialisation format.
enum class LegacyEventKind : uint8_t {
  Mark = 0,
  PushRange = 1,
  PopRange = 2,
  MemoryAlloc = 3,  // an allocation (bytes > 0) or a free (bytes < 0)
  OutOfMemory = 4,  // a failed allocation: name "[OutOfMemory]", the requested bytes
};

constexpr size_t kNumLegacyEventKinds = 5;

// Returns "mark", "push", "pop", "memory_alloc" or "out_of_memory". Static storage.
inline const char* legacy_event_kind_name(LegacyEventKind kind) noexcept {
  constexpr const char* names[kNumLegacyEventKinds] = {"mark", "push", "pop", "memory_alloc",
                                                       "out_of_memory"};
  const auto index = static_cast<size_t>(kind);
  return index < kNumLegacyEventKinds ? names[index] : "unknown";
}

// Names of marks; consumers use the start marks as time zero.
constexpr const char* kStartProfileMark = "__start_profile";
constexpr const char* kStopProfileMark = "__stop_profile";
constexpr const char* kOutOfMemoryName = "[OutOfMemory]";       // name of OutOfMemory records
constexpr const char* kDeviceStartupMark = "__cuda_startup";    // warm-up of a device's events
constexpr const char* kDeviceStartMark = "__cuda_start_event";  // time zero of a device

// One record of the exclusive profiler.
struct LegacyEvent {
  LegacyEventKind kind = LegacyEventKind::Mark;
  RecordScope scope = RecordScope::FUNCTION;
  bool is_async = false;
  bool is_remote = false;     // from another process: comparable only with events of that process
  int32_t device_index = -1;  // of the device event; -1: none
  int64_t node_id = -1;       // process it is from; -1: not set
  std::string name;           // empty for pop and memory
  uint64_t thread_id = 0;     // logical id; for a pop: the thread that ended the range
  uint64_t handle = 0;        // of the RecordFunction; 0 for marks and memory
  int64_t cpu_ns = 0;         // CLOCK_MONOTONIC of the originating process
  int64_t device_us = -1;  // remote events: device time since that device's time zero; -1: not set
  int64_t cpu_memory_bytes = 0;
  int64_t device_memory_bytes = 0;
  int64_t sequence_nr = -1;
  uint64_t forward_thread_id = 0;
  uint64_t flops = 0;                        // 0: not estimated
  std::vector<std::vector<int64_t>> shapes;  // one per argument, [] if it is not a tensor
  std::vector<std::string> stack;            // innermost frame first
  DeviceEvent device_event;                  // local events only
  const DeviceStubs* stubs = nullptr;        // plug-in that recorded device_event

  // Returns whether the record has a device time.
  bool has_device_event() const noexcept {
    return device_event != nullptr || (is_remote && device_index >= 0);
  }

  // Stamps the record: with `device_stubs`, a device event and the CPU time of its recording; else
  // the CPU time now.
  void record(const DeviceStubs* device_stubs) {
    if (device_stubs != nullptr) {
      device_stubs->record(&device_index, &device_event, &cpu_ns);
      stubs = device_stubs;
    } else {
      cpu_ns = platform::monotonic_ns();
    }
  }

  // Returns the CPU time in us from this record to `end`.
  double cpu_elapsed_us(const LegacyEvent& end) const noexcept {
    return static_cast<double>(end.cpu_ns - cpu_ns) / 1000.0;
  }

  // Returns the device time in us from this record to `end`. Raises ValueError unless both have a
  // device event of the same device and are both local or both remote: device times of different
  // processes are not comparable.
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

// Events of one thread in recording order; a remote list, in the order it was sent.
using LegacyEventList = std::vector<LegacyEvent>;
// Result of disable_profiler: local lists by ascending thread id, then remote lists in order of
// arrival.
using LegacyEventLists = std::vector<LegacyEventList>;

FASTPROF_NAMESPACE_END
