// SPDX-License-Identifier: Apache-2.0
// Reads a part of a file whole.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

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
