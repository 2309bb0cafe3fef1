// SPDX-License-Identifier: Apache-2.0
// What the exclusive profiler is asked to do: its state, its options, and what a thread can ask
// about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// What records. The names and the order are PyTorch's. The exclusive profiler runs Disabled, CPU,
// CUDA, NVTX, ITT and PRIVATEUSE1; the KINETO states belong to sessions and are refused by
// enable_profiler.
enum class ProfilerState : uint8_t {
  Disabled = 0,
  CPU = 1,          // CPU times
  CUDA = 2,         // CPU times, and a device event at both ends of each range
  NVTX = 3,         // nothing is recorded: ranges and marks go to NVTX
  ITT = 4,          // nothing is recorded: ranges and marks go to ITT
  PRIVATEUSE1 = 5,  // as CUDA, through the stubs of a device plug-in
  KINETO = 6,
  KINETO_GPU_FALLBACK = 7,
  KINETO_PRIVATEUSE1_FALLBACK = 8,
  KINETO_PRIVATEUSE1 = 9,
  KINETO_ONDEMAND = 10,
};

constexpr size_t kNumProfilerStates = 11;

// Which profiler a thread has, as answered by profiler_type().
enum class ActiveProfilerType : uint8_t {
  NONE = 0,
  LEGACY = 1,
  KINETO = 2,
  NVTX = 3,
  ITT = 4,
  PRIVATEUSE1 = 5,
};

// The enumerator's name; "unknown" outside the enum. Static storage.
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

// The type a profiler in `state` is reported as: NONE for Disabled, LEGACY for the recording states
// CPU and CUDA.
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
  bool report_input_shapes =
      false;  // shapes with each range; in NVTX also sizes and input_op_ids in the text
  bool profile_memory = false;  // memory and out-of-memory reports become events
  bool with_stack =
      false;  // frames of the stack provider with each range that is not a backward function
  bool with_flops = false;  // an estimate from the inputs with each range
  bool with_modules =
      false;  // carried for the consumer of the events; the profiler itself does nothing with it
  std::string trace_id;  // carried likewise

  ProfilerConfig() = default;
  explicit ProfilerConfig(ProfilerState profiler_state) : state(profiler_state) {}

  bool disabled() const noexcept { return state == ProfilerState::Disabled; }

  // Ranges and marks are passed on and nothing is kept.
  bool passes_on() const noexcept {
    return state == ProfilerState::NVTX || state == ProfilerState::ITT;
  }

  // Ranges carry device events.
  bool times_device() const noexcept {
    return state == ProfilerState::CUDA || state == ProfilerState::PRIVATEUSE1;
  }
};

// Options of disable_profiler.
struct ProfilerDisableOptions {
  bool cleanup_tls_state =
      true;                 // pop the state and remove the callback; false: leave both in place
  bool consolidate = true;  // mark the stop and return the events; false: return nothing
};

FASTPROF_NAMESPACE_END
