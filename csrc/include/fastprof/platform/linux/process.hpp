// SPDX-License-Identifier: Apache-2.0
// What identifies this process and this boot, its name, and the limits of its machine and cgroup:
// from /proc and /sys.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Reads the first line of a small file; returns its length without the newline.
inline size_t read_line(const char* path, char* text, size_t size) noexcept {
  text[0] = 0;
  std::FILE* f = std::fopen(path, "re");
  if (f == nullptr) return 0;
  const size_t count = std::fread(text, 1, size - 1, f);
  std::fclose(f);
  text[count] = 0;
  const size_t length = std::strcspn(text, "\n");
  text[length] = 0;
  return length;
}

// An id of this boot of the machine, within which tick counters compare; empty if unknown.
inline void read_boot_id(char* text, size_t size) noexcept {
  read_line("/proc/sys/kernel/random/boot_id", text, size);
}

// The kernel's name of the process, at most 15 bytes; empty if it cannot be read.
inline void read_process_name(char* text, size_t size) noexcept {
  read_line("/proc/self/comm", text, size);
}

// Start of a process since boot in 1/100 s (field 22 of its file `stat`); 0 if unreadable, if it
// has ended, and if it is a zombie.
inline uint64_t start_in(const char* stat) noexcept {
  char text[1024];
  if (read_line(stat, text, sizeof text) == 0) return 0;
  const char* at = std::strrchr(text, ')');  // the name may contain blanks and parentheses
  if (at == nullptr || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') return 0;
  for (int field = 2; field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return 0;
  }
  return std::strtoull(at + 1, nullptr, 10);
}
inline uint64_t process_start() noexcept {
  return start_in("/proc/self/stat");
}
inline uint64_t process_start(pid_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  return start_in(path);
}

// Copies the path of the program that this process runs; returns its length, 0 if unknown.
inline size_t read_program_path(char* text, size_t size) noexcept {
  const ssize_t length = ::readlink("/proc/self/exe", text, size - 1);
  text[length > 0 ? length : 0] = 0;
  return length > 0 ? static_cast<size_t>(length) : 0;
}

// Memory available to the process, in bytes: the minimum of RAM and the cgroup limit (v2, v1).
inline uint64_t memory_limit_bytes() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  uint64_t limit = pages > 0 && page > 0
                       ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page)
                       : uint64_t{1} << 32;
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::FILE* f = std::fopen(path, "re");
    if (f == nullptr) continue;
    unsigned long long value = 0;
    if (std::fscanf(f, "%llu", &value) == 1 && value > 0 && value < limit) limit = value;
    std::fclose(f);
  }
  return limit;
}

// CPUs that the cgroup's quota allows (v2, v1); 1e6 if there is no quota.
inline double quota_cpus() noexcept {
  double quota = 0, period = 0;
  if (std::FILE* f = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {
    char text[32] = {};
    if (std::fscanf(f, "%31s %lf", text, &period) != 2 || std::sscanf(text, "%lf", &quota) != 1)
      quota = 0;
    std::fclose(f);
  } else {
    if (std::FILE* q = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")) {
      if (std::fscanf(q, "%lf", &quota) != 1) quota = 0;
      std::fclose(q);
    }
    if (std::FILE* p = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re")) {
      if (std::fscanf(p, "%lf", &period) != 1) period = 0;
      std::fclose(p);
    }
  }
  return quota > 0 && period > 0 ? quota / period : 1e6;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
