// SPDX-License-Identifier: Apache-2.0
// A memory barrier on all threads of the process, without membarrier(2). Darwin's kernel stops a
// thread to read its registers, and a thread that was stopped has passed a barrier.
//
// The alternatives would slow down recording: a sequentially consistent fence in each range costs
// more than the range itself, and mprotect() interrupts other CPUs on x86-64 only (arm64 broadcasts
// the invalidation of translations without an interrupt).
#pragma once

#include <mach/mach.h>

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Prepares fence_all_threads() for this process. Nothing to do here.
inline bool register_fence() noexcept {
  return true;
}

// Whether a thread has passed a barrier since the call: it was stopped, or it has ended.
inline bool fence_thread(thread_act_t thread) noexcept {
  natural_t registers[MACHINE_THREAD_STATE_COUNT];
  mach_msg_type_number_t count = MACHINE_THREAD_STATE_COUNT;
  const kern_return_t result = ::thread_get_state(
      thread, MACHINE_THREAD_STATE, reinterpret_cast<thread_state_t>(registers), &count);
  return result == KERN_SUCCESS || result == KERN_TERMINATED || result == MACH_SEND_INVALID_DEST;
}

// Makes every thread of the process pass a full memory barrier before it returns true. A thread
// that is created meanwhile sees all earlier writes of this thread, because its creation comes
// after the list was made. Costs a system call and a stop for each other thread, some us each.
// Called at start and stop of sessions and when names are reclaimed, never by a range.
inline bool fence_all_threads() noexcept {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  thread_act_array_t threads = nullptr;
  mach_msg_type_number_t count = 0;
  if (::task_threads(mach_task_self(), &threads, &count) != KERN_SUCCESS) return false;
  const thread_t self = ::mach_thread_self();
  bool all = true;
  for (mach_msg_type_number_t i = 0; i < count; ++i) {
    if (threads[i] != self && !fence_thread(threads[i])) all = false;
    ::mach_port_deallocate(mach_task_self(), threads[i]);
  }
  ::mach_port_deallocate(mach_task_self(), self);
  ::vm_deallocate(mach_task_self(), reinterpret_cast<vm_address_t>(threads),
                  count * sizeof(thread_act_t));
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return all;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
