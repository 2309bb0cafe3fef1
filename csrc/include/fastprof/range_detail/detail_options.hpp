// SPDX-License-Identifier: Apache-2.0
// DetailOptions: what ranges carry beside their two times. Plain data: it lies in the state a
// process shares.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr uint32_t kMaxCounters = 4;  // in one group: what a CPU counts at once almost everywhere
constexpr uint32_t kMaxCppFrames = 128;

// One perf event, as perf_event_open(2) takes it. Made by find_counter (counter_names.hpp).
struct CounterConfig {
  uint32_t type;      // perf_event_attr::type
  uint32_t excludes;  // counter_exclude bits
  uint64_t config;    // perf_event_attr::config
};

namespace counter_exclude {
constexpr uint32_t user = 1;  // do not count in user mode
constexpr uint32_t kernel =
    2;  // do not count in the kernel: allowed to everybody up to paranoid level 2
constexpr uint32_t hypervisor = 4;  // nor in the hypervisor
}  // namespace counter_exclude

// How native stacks are walked.
enum class StackMethod : uint8_t {
  unwind_tables = 0,  // exact with any code that has unwind tables; the default
  frame_pointers =
      1,  // for programs built with -fno-omit-frame-pointer throughout: others lose frames silently
};

struct DetailOptions {
  std::array<CounterConfig, kMaxCounters> counters;
  uint32_t counter_count;  // 0: no counters
  uint32_t max_frames;     // return addresses kept, innermost first; at most kMaxCppFrames
  StackMethod stack_method;
  bool cpp_stack;  // false: no native stack
  uint8_t reserved[6];
};
static_assert(std::is_trivially_copyable<DetailOptions>::value &&
                  std::is_standard_layout<DetailOptions>::value,
              "DetailOptions lies in shared state");
static_assert(sizeof(DetailOptions) == 80, "DetailOptions is ABI");

FASTPROF_NAMESPACE_END
