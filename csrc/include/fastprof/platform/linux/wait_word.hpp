// SPDX-License-Identifier: Apache-2.0
// Waiting for a word of memory to change: futex(2), on words private to the process.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Waits while `*word` is `seen`, until another thread wakes it, at most `limit_ns`. True: it was
// woken. May also return early. Any thread, no lock.
inline bool wait_word(uint32_t* word, uint32_t seen, int64_t limit_ns) noexcept {
  const timespec limit{static_cast<time_t>(limit_ns / 1000000000),
                       static_cast<long>(limit_ns % 1000000000)};
  return ::syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen, &limit, nullptr, 0) == 0;
}

inline void wake_one(uint32_t* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, nullptr, nullptr, 0);
}
inline void wake_all(uint32_t* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace platform
FASTPROF_NAMESPACE_END
