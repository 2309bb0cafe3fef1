// SPDX-License-Identifier: Apache-2.0
// DetailOptions: which details (perf counters, native stacks) ranges record beside their two times.
// Plain data, because it is stored in the State that all libraries share.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kMaxCounters = 4;  // one group: almost every CPU counts 4 events at once
constexpr uint32_t kMaxCppFrames = 128;

// One perf event, in the terms of perf_event_open(2). Made by find_counter (counter_names.hpp).
struct CounterConfig {
  uint32_t type;      // perf_event_attr::type
  uint32_t excludes;  // counter_exclude bits
  uint64_t config;    // perf_event_attr::config
};

namespace counter_exclude {
constexpr uint32_t user = 1;        // exclude user mode
constexpr uint32_t kernel = 2;      // exclude the kernel: needs no privilege up to paranoid level 2
constexpr uint32_t hypervisor = 4;  // exclude the hypervisor
}  // namespace counter_exclude

// How native stacks are walked.
enum class StackMethod : uint8_t {
  unwind_tables = 0,  // default; exact for all code with unwind tables
  // For programs built with -fno-omit-frame-pointer throughout: other code loses frames silently.
  frame_pointers = 1,
};

// The details that all live sessions with details request; they must agree.
struct DetailOptions {
  std::array<CounterConfig, kMaxCounters> counters;
  uint32_t counter_count;  // 0: no counters
  uint32_t max_frames;     // return addresses kept, innermost first; at most kMaxCppFrames
  StackMethod stack_method;
  bool cpp_stack;     // false: no native stack
  bool joined_stack;  // the stack that State::joined_stack gives
  uint8_t reserved[5];
};
static_assert(std::is_trivially_copyable<DetailOptions>::value &&
                  std::is_standard_layout<DetailOptions>::value,
              "DetailOptions lies in shared state");
static_assert(sizeof(DetailOptions) == 80, "DetailOptions is ABI");

FASTPROF_NAMESPACE_END
