// SPDX-License-Identifier: Apache-2.0
// CheckedMemory: reads from possibly invalid addresses. The kernel copies the bytes and rejects
// unmapped addresses.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/files.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// A Memory for input_reader.hpp and op_names.hpp. Failed reads return zeros and set failed()
// permanently. Two system calls per read. Not thread-safe.
class CheckedMemory {
 public:
  CheckedMemory() noexcept {
    if (!platform::open_pipe(pipe_)) pipe_[0] = pipe_[1] = -1;
  }
  ~CheckedMemory() {
    for (const int end : pipe_)
      if (end >= 0) ::close(end);
  }
  CheckedMemory(const CheckedMemory&) = delete;
  CheckedMemory& operator=(const CheckedMemory&) = delete;

  bool failed() const noexcept { return failed_; }

  template <class T>
  T load(uintptr_t address) noexcept {
    T value{};
    if (!copy(address, &value, sizeof value)) std::memset(&value, 0, sizeof value);
    return value;
  }
  template <class T, size_t most>
  struct Scratch {
    const T* view(CheckedMemory& memory, uintptr_t address, size_t count) noexcept {
      return count <= most && memory.copy(address, copies, count * sizeof(T)) ? copies : nullptr;
    }
    T copies[most];
  };

 private:
  // write() to a pipe is atomic up to 4096 bytes and fails with EFAULT for an invalid address.
  bool copy(uintptr_t address, void* to, size_t bytes) noexcept {
    if (bytes == 0) return true;
    if (failed_ || bytes > 4096) {
      failed_ = true;
      return false;
    }
    const ssize_t put = ::write(pipe_[1], reinterpret_cast<const void*>(address), bytes);
    const ssize_t got = put > 0 ? ::read(pipe_[0], to, static_cast<size_t>(put)) : put;
    if (got != static_cast<ssize_t>(bytes)) failed_ = true;
    return !failed_;
  }

  int pipe_[2];
  bool failed_ = false;
};

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
