// SPDX-License-Identifier: Apache-2.0
// Waits for a word of memory to change, by __ulock_wait. libSystem has exported it since macOS
// 10.12 and libc++'s std::atomic::wait uses it, but no header declares it.
// (os_sync_wait_on_address, which is declared, exists since macOS 14.4.)
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

extern "C" {
// Negative errno with kUlockNoErrno; limit in us, 0: none.
int __ulock_wait(uint32_t operation, void* address, uint64_t value, uint32_t limit_us);
int __ulock_wake(uint32_t operation, void* address, uint64_t wake_value);
}

FASTPROF_NAMESPACE_BEGIN
namespace platform {

constexpr uint32_t kUlockCompareAndWait = 1;   // UL_COMPARE_AND_WAIT: a word of 32 bits
constexpr uint32_t kUlockWakeAll = 0x100;      // ULF_WAKE_ALL
constexpr uint32_t kUlockNoErrno = 0x1000000;  // ULF_NO_ERRNO

// Waits while `*word` is `seen`, until another thread wakes it, for at most `limit_ns`. Returns
// true if it was woken, or if the word differed at once. May return early. Any thread, no lock.
inline bool wait_word(uint32_t* word, uint32_t seen, int64_t limit_ns) noexcept {
  const int64_t us = limit_ns / 1000;
  const auto limit_us = static_cast<uint32_t>(us < 1 ? 1 : us > 0x7FFFFFFF ? 0x7FFFFFFF : us);
  return ::__ulock_wait(kUlockCompareAndWait | kUlockNoErrno, word, seen, limit_us) >= 0;
}

inline void wake_one(uint32_t* word) noexcept {
  ::__ulock_wake(kUlockCompareAndWait | kUlockNoErrno, word, 0);
}
inline void wake_all(uint32_t* word) noexcept {
  ::__ulock_wake(kUlockCompareAndWait | kUlockNoErrno | kUlockWakeAll, word, 0);
}

}  // namespace platform
FASTPROF_NAMESPACE_END
