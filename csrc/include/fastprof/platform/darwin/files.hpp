// SPDX-License-Identifier: Apache-2.0
// Unnamed files, pipes, reserving room in files, and folders in memory, on Darwin, which has
// neither the first nor the last.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// There are no unnamed files here: -1 with errno EOPNOTSUPP. The caller makes a temporary one.
inline int open_unnamed_file(const char*, bool) noexcept {
  errno = EOPNOTSUPP;
  return -1;
}
inline int link_unnamed_file(int, const char*) noexcept {
  errno = EOPNOTSUPP;
  return -1;
}

// Opens a new file, named after `name` whose last six characters it replaces; close-on-exec.
inline int open_temporary_file(char* name) noexcept {
  return ::mkostemp(name, O_CLOEXEC);
}

// Reserves bytes of a file, which nothing has been written to, on its file system; returns 0 or
// errno. F_PREALLOCATE reserves behind the file's physical end and promises nothing of a hole, so
// zeroes are written: a store to a mapped page must not find the disk full.
inline int reserve_in_file(int fd, uint64_t offset, uint64_t bytes) noexcept {
  static const char zeroes[64 * 1024] = {};
  while (bytes != 0) {
    const size_t now = bytes < sizeof zeroes ? static_cast<size_t>(bytes) : sizeof zeroes;
    const ssize_t written = ::pwrite(fd, zeroes, now, static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (written == 0) return ENOSPC;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<uint64_t>(written);
  }
  return 0;
}

// Opens a pipe, close-on-exec, whose ends never wait.
inline bool open_pipe(int (&ends)[2]) noexcept {
  if (::pipe(ends) != 0) return false;
  for (const int end : ends) {
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(end, F_SETFL, ::fcntl(end, F_GETFL) | O_NONBLOCK);
  }
  return true;
}

// The folder whose files lie in memory; null if there is none.
inline const char* folder_in_memory() noexcept {
  return nullptr;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
