// SPDX-License-Identifier: Apache-2.0
// Lists the threads of this process, and their names, from /proc.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Reads the kernel's ids of all threads; false if /proc is not mounted.
inline bool list_threads(std::vector<uint32_t>* tids) {
  tids->clear();
  DIR* const folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return false;
  while (const dirent* entry = ::readdir(folder))
    if (entry->d_name[0] != '.')
      tids->push_back(static_cast<uint32_t>(::strtoul(entry->d_name, nullptr, 10)));
  ::closedir(folder);
  return true;
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
