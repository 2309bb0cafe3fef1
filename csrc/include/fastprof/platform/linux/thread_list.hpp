// SPDX-License-Identifier: Apache-2.0
// Lists the threads of this process, and their names, from /proc.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
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

}  // namespace platform
FASTPROF_NAMESPACE_END
