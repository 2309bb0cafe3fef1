// SPDX-License-Identifier: Apache-2.0
// Reads a part of a file whole, and reserves room in a file by writing zeroes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Writes zeroes to a part of a file to which nothing has been written; returns 0 or errno.
inline int write_zeroes(int fd, uint64_t offset, uint64_t bytes) noexcept {
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

// Reads exactly `bytes` bytes from `offset` on; false if the file ends before or cannot be read.
inline bool read_at(int fd, uint64_t offset, void* out, uint64_t bytes) noexcept {
  auto* to = static_cast<char*>(out);
  while (bytes != 0) {
    const ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return true;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
