// SPDX-License-Identifier: Apache-2.0
// Unnamed files, pipes, reserving room in files, and the folder in memory, on Linux.
#pragma once

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/files.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Opens a file without a name in `folder`, mode 0600. `may_link`: link_unnamed_file() may name it
// later. -1 with errno EOPNOTSUPP if the system or the file system has no such files, or cannot
// name them because /proc is not mounted.
inline int open_unnamed_file(const char* folder, bool may_link) noexcept {
  if (may_link && ::access("/proc/self/fd", X_OK) != 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  const int fd = ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | (may_link ? 0 : O_EXCL), 0600);
  if (fd < 0 && (errno == EISDIR || errno == ENOENT)) errno = EOPNOTSUPP;
  return fd;
}

// Gives an unnamed file its name, which must not exist. 0, or -1 with errno set.
inline int link_unnamed_file(int fd, const char* path) noexcept {
  char self[64];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  return ::linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

// Opens a new file, named after `name` whose last six characters it replaces; close-on-exec.
inline int open_temporary_file(char* name) noexcept {
  return ::mkostemp(name, O_CLOEXEC);
}

// Reserves bytes of a file, to which nothing has been written, on its file system; returns 0 or
// errno. Some file systems have no fallocate (NFS before 4.2, FUSE).
inline int reserve_in_file(int fd, uint64_t offset, uint64_t bytes) noexcept {
  for (;;) {
    if (::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return write_zeroes(fd, offset, bytes);
    if (errno != EINTR) return errno;
  }
}

// Opens a pipe, close-on-exec, whose ends never wait.
inline bool open_pipe(int (&ends)[2]) noexcept {
  return ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0;
}

// The folder whose files lie in memory; null if there is none.
inline const char* folder_in_memory() noexcept {
  struct statfs facts;
  constexpr auto kTmpfs = 0x01021994;
  return ::statfs("/dev/shm", &facts) == 0 && facts.f_type == kTmpfs ? "/dev/shm" : nullptr;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
