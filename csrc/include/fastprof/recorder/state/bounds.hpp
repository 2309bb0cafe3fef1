// SPDX-License-Identifier: Apache-2.0
// Resource limits of the process's machine and cgroup: the default memory bound of a session, and
// the CPU quota.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

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

// Default of a session's max_bytes: min(256 MB, 1/16 of the memory limit).
inline uint64_t default_max_bytes() noexcept {
  const uint64_t share = memory_limit_bytes() / 16;
  constexpr uint64_t kMost = uint64_t{256} << 20;
  return share < kMost ? share : kMost;
}

// CPUs that the cgroup's quota allows (v2, v1); 1e6 if there is no quota.
inline double cgroup_cpus() noexcept {
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

FASTPROF_NAMESPACE_END
