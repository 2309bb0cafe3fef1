// SPDX-License-Identifier: Apache-2.0
// Configuration of the exclusive profiler: its state and options, and the types by which a thread's
// profiler is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// What is recorded. Names and order are PyTorch's. The exclusive profiler supports Disabled, CPU,
// CUDA, NVTX, ITT and PRIVATEUSE1; enable_profiler refuses the KINETO states, which sessions
// provide.
enum class ProfilerState : uint8_t {
  Disabled = 0,
  CPU = 1,          // CPU times
  CUDA = 2,         // CPU times, and device events at both ends of each range
  NVTX = 3,         // records nothing: forwards ranges and marks to NVTX
  ITT = 4,          // records nothing: forwards ranges and marks to ITT
  PRIVATEUSE1 = 5,  // as CUDA, using the stubs of a device plug-in
  KINETO = 6,
  KINETO_GPU_FALLBACK = 7,
  KINETO_PRIVATEUSE1_FALLBACK = 8,
  KINETO_PRIVATEUSE1 = 9,
  KINETO_ONDEMAND = 10,
};

constexpr size_t kNumProfilerStates = 11;

// Kind of a thread's profiler, as returned by profiler_type().
enum class ActiveProfilerType : uint8_t {
  NONE = 0,
  LEGACY = 1,
  KINETO = 2,
  NVTX = 3,
  ITT = 4,
  PRIVATEUSE1 = 5,
};

// Returns the enumerator's name; "unknown" outside the enum. Static storage.
inline const char* profiler_state_name(ProfilerState state) noexcept {
  constexpr const char* names[kNumProfilerStates] = {"Disabled",
                                                     "CPU",
                                                     "CUDA",
                                                     "NVTX",
                                                     "ITT",
                                                     "PRIVATEUSE1",
                                                     "KINETO",
                                                     "KINETO_GPU_FALLBACK",
                                                     "KINETO_PRIVATEUSE1_FALLBACK",
                                                     "KINETO_PRIVATEUSE1",
                                                     "KINETO_ONDEMAND"};
  const auto index = static_cast<size_t>(state);
  return index < kNumProfilerStates ? names[index] : "unknown";
}

// Returns the type reported for `state`: NONE for Disabled, LEGACY for CPU and CUDA, which record.
inline ActiveProfilerType active_profiler_type(ProfilerState state) noexcept {
  switch (state) {
    case ProfilerState::Disabled:
      return ActiveProfilerType::NONE;
    case ProfilerState::CPU:
    case ProfilerState::CUDA:
      return ActiveProfilerType::LEGACY;
    case ProfilerState::NVTX:
      return ActiveProfilerType::NVTX;
    case ProfilerState::ITT:
      return ActiveProfilerType::ITT;
    case ProfilerState::PRIVATEUSE1:
      return ActiveProfilerType::PRIVATEUSE1;
    default:
      return ActiveProfilerType::KINETO;
  }
}

// Options of one run of the exclusive profiler.
struct ProfilerConfig {
  ProfilerState state = ProfilerState::CPU;
  // Record shapes with each range; in state NVTX, add sizes and input_op_ids to the text.
  bool report_input_shapes = false;
  bool profile_memory = false;  // record memory and out-of-memory reports as events
  // Record stack frames from the stack provider, except for backward functions.
  bool with_stack = false;
  bool with_flops = false;  // record estimated FLOPs with each range
  // Passed on to the consumer of the events; not used by the profiler.
  bool with_modules = false;
  std::string trace_id;  // likewise

  ProfilerConfig() = default;
  explicit ProfilerConfig(ProfilerState profiler_state) : state(profiler_state) {}

  bool disabled() const noexcept { return state == ProfilerState::Disabled; }

  // Whether ranges and marks are forwarded instead of recorded.
  bool passes_on() const noexcept {
    return state == ProfilerState::NVTX || state == ProfilerState::ITT;
  }

  // Whether ranges have device events.
  bool times_device() const noexcept {
    return state == ProfilerState::CUDA || state == ProfilerState::PRIVATEUSE1;
  }
};

// Options of disable_profiler.
struct ProfilerDisableOptions {
  bool cleanup_tls_state = true;  // remove the profiler and its callback; false: keep both
  bool consolidate = true;  // record the stop mark and return the events; false: return nothing
};

FASTPROF_NAMESPACE_END
