// SPDX-License-Identifier: Apache-2.0
// What a test can set of the double of Darwin, and read from it.
#pragma once

#include <atomic>
#include <cstdint>

struct FakeDarwin {
  std::atomic<uint32_t> numer{125}, denom{3};  // of mach time: 24 MHz, as on Apple silicon
  std::atomic<int64_t> suspended_ns{0};        // mach_continuous_time() minus mach_absolute_time()
  std::atomic<int> state_result{0};            // what thread_get_state() returns
  std::atomic<int> threads_result{0};          // what task_threads() returns
  std::atomic<uint64_t> stopped{0};            // calls of thread_get_state()
  std::atomic<int> other_pid{0}, other_state{0};  // of a second process that sysctl() knows
  std::atomic<int64_t> ports{0};                  // rights to threads that were not given back
};

extern "C" FakeDarwin* fake_darwin();
