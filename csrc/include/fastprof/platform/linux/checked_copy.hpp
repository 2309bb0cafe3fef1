// SPDX-License-Identifier: Apache-2.0
// Checked copies by process_vm_readv(2), which returns EFAULT where a load would fault.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/checked_copy.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Copies pieces in their order and returns how many were copied before the first unmapped one. Up
// to 64 consecutive pieces take one system call. `pid`: of this process.
inline size_t copy_pieces(int pid, const MemoryPiece* pieces, size_t count) noexcept {
  constexpr size_t kPiecesACall = 64;
  size_t done = 0;
  while (done < count) {
    iovec to[kPiecesACall];
    iovec from[kPiecesACall];
    const size_t number = count - done < kPiecesACall ? count - done : kPiecesACall;
    for (size_t i = 0; i < number; ++i) {
      const MemoryPiece& piece = pieces[done + i];
      to[i] = {piece.to, piece.size_bytes};
      from[i] = {reinterpret_cast<void*>(piece.address), piece.size_bytes};
    }
    ssize_t copied = ::process_vm_readv(pid, to, number, from, number, 0);
    for (size_t i = 0; i < number; ++i) {
      copied -= static_cast<ssize_t>(to[i].iov_len);
      if (copied < 0) return done + i;
    }
    done += number;
  }
  return done;
}

// Returns whether the system permits checked copies; seccomp filters of containers may not.
inline bool can_copy_pieces() noexcept {
  int from = 1;
  int to = 0;
  const MemoryPiece piece = {reinterpret_cast<uintptr_t>(&from), &to, sizeof to};
  return copy_pieces(::getpid(), &piece, 1) == 1 && to == 1;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
