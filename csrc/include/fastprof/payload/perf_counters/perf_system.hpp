// SPDX-License-Identifier: Apache-2.0
// PerfSystem: the system calls used for perf counters, as function pointers. Tests replace them,
// because most machines lack something (a PMU, the permission, the kernel option).
#pragma once

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Return values and errno are those of the system calls.
struct PerfSystem {
  int (*open)(perf_event_attr* attributes, int group_fd);  // this thread, any CPU, close-on-exec
  ssize_t (*read)(int fd, void* buffer, size_t size_bytes);
  int (*enable)(int leader_fd);  // starts the whole group
  int (*close)(int fd);
  void* (*map)(int fd, size_t size_bytes);  // null if not possible
  void (*unmap)(void* address, size_t size_bytes);
  uint64_t (*read_pmc)(uint32_t index);  // null: unsupported or unused on this architecture
  uint64_t (*fd_limit)();                // soft limit on file descriptors
};

namespace perf_calls {

inline int open(perf_event_attr* attributes, int group_fd) {
  return static_cast<int>(
      ::syscall(SYS_perf_event_open, attributes, 0, -1, group_fd, PERF_FLAG_FD_CLOEXEC));
}
inline ssize_t read(int fd, void* buffer, size_t size_bytes) {
  return ::read(fd, buffer, size_bytes);
}
inline int enable(int leader_fd) {
  return ::ioctl(leader_fd, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}
inline int close(int fd) {
  return ::close(fd);
}
inline void* map(int fd, size_t size_bytes) {
  void* address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  return address == MAP_FAILED ? nullptr : address;
}
inline void unmap(void* address, size_t size_bytes) {
  ::munmap(address, size_bytes);
}
#if defined(__x86_64__)
inline uint64_t read_pmc(uint32_t index) {
  uint32_t low, high;
  __asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(index));
  return static_cast<uint64_t>(high) << 32 | low;
}
#endif
inline uint64_t fd_limit() {
  rlimit limit;
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace perf_calls

inline constexpr PerfSystem kPerfSystem = {
    &perf_calls::open,  //
    &perf_calls::read,     &perf_calls::enable, &perf_calls::close,
    &perf_calls::map,      &perf_calls::unmap,
#if defined(__x86_64__)
    &perf_calls::read_pmc,
#else
    nullptr,
#endif
    &perf_calls::fd_limit,
};

FASTPROF_NAMESPACE_END
