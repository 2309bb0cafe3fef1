// SPDX-License-Identifier: Apache-2.0
// Unnamed files, pipes, reserved space in files, and folders in memory. Darwin has neither unnamed
// files nor folders in memory.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/files.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Darwin has no unnamed files: returns -1 with errno EOPNOTSUPP. The caller creates a temporary
// file.
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

// Allocates bytes of a file, to which nothing has been written, on its file system; returns 0 or
// errno. F_PREALLOCATE only allocates behind the file's physical end, so zeroes are written
// instead: a later store to a mapped page must not fail for lack of space.
inline int reserve_in_file(int fd, uint64_t offset, uint64_t bytes) noexcept {
  return write_zeroes(fd, offset, bytes);
}

// Opens a pipe whose ends are close-on-exec and non-blocking.
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
