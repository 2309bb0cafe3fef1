// SPDX-License-Identifier: Apache-2.0
// Threads on Darwin: their ids, names, stacks and CPUs, and a memory barrier on all.
#pragma once

#include <mach/mach.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

constexpr size_t kThreadNameBytes = 64;  // with a 0 at the end

// The system's id of the calling thread, as threading.get_native_id() returns it. (It has 64 bits
// and counts the threads of all processes since boot: only the low half is kept.)
inline uint32_t thread_id() noexcept {
  uint64_t id = 0;
  ::pthread_threadid_np(::pthread_self(), &id);
  return static_cast<uint32_t>(id);
}

// Calls visit(thread_act_t) for each thread of the process. False if the kernel does not list them.
template <class Visit>
bool visit_threads(Visit visit) noexcept {
  thread_act_array_t threads = nullptr;
  mach_msg_type_number_t count = 0;
  if (::task_threads(mach_task_self(), &threads, &count) != KERN_SUCCESS) return false;
  for (mach_msg_type_number_t i = 0; i < count; ++i) {
    visit(threads[i]);
    ::mach_port_deallocate(mach_task_self(), threads[i]);
  }
  ::vm_deallocate(mach_task_self(), reinterpret_cast<vm_address_t>(threads),
                  count * sizeof(thread_act_t));
  return true;
}

// Whether a thread of this process exists. True also if the kernel does not answer.
inline bool thread_exists(uint32_t, uint32_t tid) noexcept {
  bool found = false;
  const bool listed = visit_threads([&](thread_act_t thread) {
    thread_identifier_info_data_t info{};
    mach_msg_type_number_t words = THREAD_IDENTIFIER_INFO_COUNT;
    if (::thread_info(thread, THREAD_IDENTIFIER_INFO, reinterpret_cast<thread_info_t>(&info),
                      &words) == KERN_SUCCESS &&
        static_cast<uint32_t>(info.thread_id) == tid)
      found = true;
  });
  return found || !listed;
}

// The CPU time of a thread is not read here: false.
inline bool read_thread_cpu_ns(uint32_t, int64_t*) noexcept {
  return false;
}

// Copies the calling thread's name; empty if it has none.
inline void read_thread_name(char (&name)[kThreadNameBytes]) noexcept {
  name[0] = 0;
  if (::pthread_getname_np(::pthread_self(), name, sizeof name) != 0) name[0] = 0;
  name[kThreadNameBytes - 1] = 0;
}

// Names the calling thread; at most 63 bytes.
inline void name_this_thread(const char* name) noexcept {
  ::pthread_setname_np(name);
}

// CPUs that are in use; 1 if unknown. Threads have no affinity here.
inline int usable_cpus() noexcept {
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cpus > 0 ? static_cast<int>(cpus) : 1;
}

// Finds the calling thread's stack: [*low, *high). False if unknown.
inline bool find_thread_stack(uintptr_t* low, uintptr_t* high) noexcept {
  const auto end = reinterpret_cast<uintptr_t>(::pthread_get_stackaddr_np(::pthread_self()));
  const size_t bytes = ::pthread_get_stacksize_np(::pthread_self());
  if (end == 0 || bytes == 0 || bytes > end) return false;
  *low = end - bytes;
  *high = end;
  return true;
}

// Threads are not listed by id here: false.
inline bool list_threads(std::vector<uint32_t>*) {
  return false;
}
inline std::string thread_name_of(uint32_t) {
  return {};
}

// Prepares fence_all_threads() for this process. Nothing to do here.
inline bool register_fence() noexcept {
  return true;
}

// Whether a thread has passed a barrier since the call: Darwin's kernel stops a thread to read its
// registers; or the thread has ended.
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
//
// The alternatives would slow down recording: a sequentially consistent fence in each range costs
// more than the range itself, and mprotect() interrupts other CPUs on x86-64 only (arm64 broadcasts
// the invalidation of translations without an interrupt).
inline bool fence_all_threads() noexcept {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  const thread_t self = ::mach_thread_self();
  bool all = true;
  const bool listed = visit_threads([&](thread_act_t thread) {
    if (thread != self && !fence_thread(thread)) all = false;
  });
  ::mach_port_deallocate(mach_task_self(), self);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return all && listed;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
