// SPDX-License-Identifier: Apache-2.0
// Threads on Darwin: their ids, names, stacks and CPUs.
#pragma once

#include <mach/mach.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

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

// Whether a thread of this process exists. True also if the kernel does not answer.
inline bool thread_exists(uint32_t, uint32_t tid) noexcept {
  thread_act_array_t threads = nullptr;
  mach_msg_type_number_t count = 0;
  if (::task_threads(mach_task_self(), &threads, &count) != KERN_SUCCESS) return true;
  bool found = false;
  for (mach_msg_type_number_t i = 0; i < count; ++i) {
    thread_identifier_info_data_t info{};
    mach_msg_type_number_t words = THREAD_IDENTIFIER_INFO_COUNT;
    if (::thread_info(threads[i], THREAD_IDENTIFIER_INFO, reinterpret_cast<thread_info_t>(&info),
                      &words) == KERN_SUCCESS &&
        static_cast<uint32_t>(info.thread_id) == tid)
      found = true;
    ::mach_port_deallocate(mach_task_self(), threads[i]);
  }
  ::vm_deallocate(mach_task_self(), reinterpret_cast<vm_address_t>(threads),
                  count * sizeof(thread_act_t));
  return found;
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

}  // namespace platform
FASTPROF_NAMESPACE_END
