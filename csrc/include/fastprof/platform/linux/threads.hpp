// SPDX-License-Identifier: Apache-2.0
// Threads as the Linux kernel knows them: ids, names, stacks, CPUs, the list of all (/proc), and a
// memory barrier on all (membarrier(2)).
#pragma once

#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

constexpr size_t kThreadNameBytes = 17;  // with a 0 at the end

// The kernel's id of the calling thread, as threading.get_native_id() has it.
inline uint32_t thread_id() noexcept {
  return static_cast<uint32_t>(::syscall(SYS_gettid));
}

// Whether the kernel still knows a thread of this process.
inline bool thread_exists(uint32_t pid, uint32_t tid) noexcept {
  return ::syscall(SYS_tgkill, static_cast<long>(pid), static_cast<long>(tid), 0) == 0;
}

// Reads the CPU time in ns that a thread of this process has used. False if the thread has ended.
inline bool read_thread_cpu_ns(uint32_t tid, int64_t* cpu_ns) noexcept {
  // The kernel's encoding of a thread's clock, as pthread_getcpuclockid() makes it of a pthread_t,
  // which must not be used for a thread that may have ended.
  const auto clock = static_cast<clockid_t>((~tid << 3) | 6);
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return false;
  *cpu_ns = int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
  return true;
}

// Copies the calling thread's name; empty if it has none.
inline void read_thread_name(char (&name)[kThreadNameBytes]) noexcept {
  name[0] = name[kThreadNameBytes - 1] = 0;
  ::prctl(PR_GET_NAME, reinterpret_cast<unsigned long>(name), 0, 0, 0);
}

// Names the calling thread; at most 15 bytes.
inline void name_this_thread(const char* name) noexcept {
  ::pthread_setname_np(::pthread_self(), name);
}

// CPUs that the calling thread may run on; 1 if unknown.
inline int usable_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Finds the calling thread's stack: [*low, *high). False if unknown. Calls the C library, which may
// allocate and, on the main thread, reads /proc/self/maps.
inline bool find_thread_stack(uintptr_t* low, uintptr_t* high) noexcept {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return false;
  void* address = nullptr;
  size_t size = 0;
  const bool known = ::pthread_attr_getstack(&attributes, &address, &size) == 0;
  if (known) {
    *low = reinterpret_cast<uintptr_t>(address);
    *high = *low + size;
  }
  ::pthread_attr_destroy(&attributes);
  return known;
}

// Reads the kernel's ids of all threads; false if /proc is not mounted. Without opendir(3), which
// allocates.
inline bool list_threads(std::vector<uint32_t>* tids) {
  struct Entry {  // the kernel's linux_dirent64
    uint64_t inode;
    int64_t next;
    uint16_t size_bytes;
    uint8_t type;
    char name[1];
  };
  tids->clear();
  const int folder = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  alignas(uint64_t) char text[4096];
  long size = 0;
  while ((size = ::syscall(SYS_getdents64, folder, text, sizeof text)) > 0) {
    for (long at = 0; at < size;) {
      const char* const entry = text + at;
      const char* const name = entry + offsetof(Entry, name);
      uint16_t bytes = 0;
      std::memcpy(&bytes, entry + offsetof(Entry, size_bytes), sizeof bytes);
      if (*name != '.') tids->push_back(static_cast<uint32_t>(::strtoul(name, nullptr, 10)));
      at += bytes;
    }
  }
  ::close(folder);
  return size == 0;
}

// The kernel's name of a thread of this process; empty if it has ended.
inline std::string thread_name_of(uint32_t tid) {
  char path[48];
  ::snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[32];
  const ssize_t size = ::read(file, text, sizeof text);
  ::close(file);
  return size <= 1 ? std::string() : std::string(text, static_cast<size_t>(size - 1));
}

// Prepares fence_all_threads() for this process. False: it does not exist here (seccomp, gVisor).
inline bool register_fence() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

// Every thread of the process passes a full memory barrier before this returns true. Takes 28 us
// with three busy threads.
inline bool fence_all_threads() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
