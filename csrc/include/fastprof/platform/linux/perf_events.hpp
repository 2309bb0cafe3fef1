// SPDX-License-Identifier: Apache-2.0
// Counters of the Linux kernel and the CPU: perf_event_open(2), and what /proc and /sys say of
// them.
#pragma once

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/counter_surroundings.hpp"

FASTPROF_NAMESPACE_BEGIN

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
// Reads a counter of the CPU without a system call; null where that is unsupported or unused.
using ReadPmc = uint64_t (*)(uint32_t index);
#if defined(__x86_64__)
inline uint64_t read_pmc(uint32_t index) {
  uint32_t low, high;
  __asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(index));
  return static_cast<uint64_t>(high) << 32 | low;
}
inline constexpr ReadPmc kReadPmc = &read_pmc;
#else
inline constexpr ReadPmc kReadPmc = nullptr;
#endif
inline uint64_t fd_limit() {
  rlimit limit;
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

}  // namespace perf_calls

namespace probe_detail {

inline std::string read_small_file(const char* path) {
  std::string text;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  for (ssize_t got; text.size() < 65536 && (got = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  ::close(fd);
  return text;
}

}  // namespace probe_detail

// Reads the properties of this machine. Any thread; reads files, so not for the hot path.
inline CounterSurroundings read_counter_surroundings() {
  CounterSurroundings facts;
  const std::string paranoid =
      probe_detail::read_small_file("/proc/sys/kernel/perf_event_paranoid");
  facts.has_paranoid = !paranoid.empty();
  if (facts.has_paranoid) facts.paranoid = std::atoi(paranoid.c_str());
  for (const char* unit :
       {"cpu", "cpu_core", "cpu_atom", "armv8_pmuv3_0", "armv8_pmuv3", "apple_firestorm_pmu"}) {
    const std::string path = std::string("/sys/bus/event_source/devices/") + unit + "/type";
    if (::access(path.c_str(), F_OK) == 0) facts.has_cpu_pmu = true;
  }
  facts.virtual_machine =
      probe_detail::read_small_file("/proc/cpuinfo").find(" hypervisor") != std::string::npos ||
      ::access("/sys/hypervisor/type", F_OK) == 0;
  const std::string status = probe_detail::read_small_file("/proc/thread-self/status");
  const size_t seccomp = status.find("\nSeccomp:");
  if (seccomp != std::string::npos) facts.seccomp = std::atoi(status.c_str() + seccomp + 9);
  facts.fd_limit = perf_calls::fd_limit();
  return facts;
}

FASTPROF_NAMESPACE_END
