// SPDX-License-Identifier: Apache-2.0
// The signal by which a thread copies its own stack, and its handler.
//
// SIGURG, because its default action is to ignore it: a signal that arrives while the process calls
// exec, or after the handler is removed, ends nothing. Debuggers pass it on without stopping.
#pragma once

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/common/copied_stack.hpp"
#include "fastprof/platform/linux/clock.hpp"
#include "fastprof/platform/linux/wait_word.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

constexpr int kStopSignal = SIGURG;

// Phases of a request, the low bits of StopSlot::word. The others are the request's number.
enum StopPhase : uint32_t {
  kStopFree = 0,
  kStopAsked = 1,
  kStopCopies = 2,  // the thread is in the handler and copies
  kStopCopied = 3,  // it stays there if `stays`
  kStopGone = 4,    // it has waited for too long and runs on
  kStopPhases = 8,
};

struct StopSlot {
  uint32_t word;
  uint32_t tid;
  bool stays;  // the thread waits until the phase is no longer kStopCopied
  StackExtent extent;
  StackRegisters at;
  size_t copied_bytes;
  char* bytes;
};

// Data of the handler. One sampling thread writes the slots at a time: ThreadStops::take_turn().
struct StopData {
  static constexpr size_t kSlots = 32;
  static constexpr size_t kSlotBytes = size_t{128} << 10;
  StopSlot slots[kSlots];
  uint32_t answers;  // futex: handlers that have copied
  uint32_t waits;    // whether handlers have to wake the sampling thread
  uint32_t turn;     // process that has the turn; 0: none
  uint32_t users;
  int pid;  // of the process that installed the handler
  struct sigaction former;
};
inline StopData g_stops{};

// Copies the stack from `sp` on; returns how many bytes. By a system call, which fails where a load
// would fault, and which is no access that sanitizers check.
inline size_t copy_stack(int pid, uintptr_t sp, size_t size_bytes, char* to) noexcept {
  constexpr size_t kPage = 4096;
  constexpr size_t kPages = StopData::kSlotBytes / kPage + 1;
  iovec from[kPages];
  size_t pieces = 0;
  for (size_t at = 0; at < size_bytes;) {  // the end of the stack may be the end of a piece only
    size_t size = kPage - (sp + at) % kPage;
    if (size > size_bytes - at) size = size_bytes - at;
    from[pieces++] = {reinterpret_cast<void*>(sp + at), size};
    at += size;
  }
  const iovec into{to, size_bytes};
  const long copied = ::syscall(SYS_process_vm_readv, static_cast<long>(pid), &into, 1L, from,
                                static_cast<long>(pieces), 0L);
  return copied > 0 ? static_cast<size_t>(copied) : 0;
}

namespace stop_detail {

constexpr int64_t kLongestStopNs = 2000000;
constexpr int kSpins = 4000;  // some 40 us

inline bool change_word(StopSlot* slot, uint32_t from, uint32_t to) noexcept {
  return __atomic_compare_exchange_n(&slot->word, &from, to, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

inline void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ __volatile__("yield");
#endif
}

inline StackRegisters registers_of(const void* context) noexcept {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return {static_cast<uintptr_t>(machine.gregs[REG_RIP]),
          static_cast<uintptr_t>(machine.gregs[REG_RSP]),
          static_cast<uintptr_t>(machine.gregs[REG_RBP]), 0, true};
#else
  return {static_cast<uintptr_t>(machine.pc), static_cast<uintptr_t>(machine.sp),
          static_cast<uintptr_t>(machine.regs[29]), static_cast<uintptr_t>(machine.regs[30]), true};
#endif
}

inline void answer(StopSlot* slot, uint32_t request, const void* context) noexcept {
  if (!change_word(slot, request | kStopAsked, request | kStopCopies)) return;
  const bool stays = slot->stays;
  slot->at = registers_of(context);
  slot->copied_bytes = copy_stack(
      g_stops.pid, slot->at.sp, slot->extent.above(slot->at.sp, StopData::kSlotBytes), slot->bytes);
  const uint32_t copied = request | kStopCopied;
  __atomic_store_n(&slot->word, copied, __ATOMIC_RELEASE);
  __atomic_fetch_add(&g_stops.answers, 1u, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&g_stops.waits, __ATOMIC_SEQ_CST) != 0) wake_one(&g_stops.answers);
  if (!stays) return;
  for (int i = 0; i < kSpins; ++i) {
    if (__atomic_load_n(&slot->word, __ATOMIC_ACQUIRE) != copied) return;
    pause_cpu();
  }
  const int64_t end_ns = monotonic_ns() + kLongestStopNs;
  for (int64_t left_ns = kLongestStopNs; left_ns > 0; left_ns = end_ns - monotonic_ns()) {
    if (__atomic_load_n(&slot->word, __ATOMIC_ACQUIRE) != copied) return;
    wait_word(&slot->word, copied, left_ns);
  }
  change_word(slot, copied, request | kStopGone);
}

// Calls the handler that was there before for signals that are not requests of this one.
inline void pass_on(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction& former = g_stops.former;
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    if (former.sa_sigaction != nullptr) former.sa_sigaction(number, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(number);
  }
}

// Answers the request to this thread, if there is one: it may have been withdrawn, or the signal
// may be that of an earlier one, because a thread has at most one pending. Only calls what
// signal-safety(7) allows.
inline void on_stop(int number, siginfo_t* info, void* context) noexcept {
  const int saved = errno;
  if (info->si_code == SI_QUEUE && info->si_pid == g_stops.pid &&
      info->si_value.sival_ptr == &g_stops) {
    const auto own = static_cast<uint32_t>(::syscall(SYS_gettid));
    for (StopSlot& slot : g_stops.slots) {
      const uint32_t word = __atomic_load_n(&slot.word, __ATOMIC_ACQUIRE);
      if (word % kStopPhases != kStopAsked || __atomic_load_n(&slot.tid, __ATOMIC_RELAXED) != own)
        continue;
      answer(&slot, word - kStopAsked, context);
      break;
    }
  } else {
    pass_on(number, info, context);
  }
  errno = saved;
}

}  // namespace stop_detail
}  // namespace platform
FASTPROF_NAMESPACE_END
