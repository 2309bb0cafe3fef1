// SPDX-License-Identifier: Apache-2.0
// How much memory a session may hold when nobody says.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// The memory this process may use: the least of RAM and its cgroup's limit (v2, v1).
inline uint64_t memory_limit_bytes() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  uint64_t limit = pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : uint64_t{1} << 32;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::FILE* f = std::fopen(path, "re");
    if (f == nullptr) continue;
    unsigned long long value = 0;
    if (std::fscanf(f, "%llu", &value) == 1 && value > 0 && value < limit) limit = value;
    std::fclose(f);
  }
  return limit;
}

// min(256 MB, 1/16 of the memory limit).
inline uint64_t default_max_bytes() noexcept {
  const uint64_t share = memory_limit_bytes() / 16;
  constexpr uint64_t kMost = uint64_t{256} << 20;
  return share < kMost ? share : kMost;
}

FASTPROF_NAMESPACE_END
