// SPDX-License-Identifier: Apache-2.0
// ThreadStops: makes other threads copy their stacks, by a signal to each, and stay meanwhile.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/linux/checked_copy.hpp"
#include "fastprof/platform/linux/clock.hpp"
#include "fastprof/platform/linux/stop_signal.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Use from one thread. Several objects of a process take turns.
class ThreadStops {
 public:
  static constexpr size_t kSlots = StopData::kSlots;
  static constexpr size_t kSlotBytes = StopData::kSlotBytes;

  // Installs the handler. Returns why it cannot; empty: it is installed.
  std::string begin() {
    if (!can_copy_pieces())
      return "the system does not permit process_vm_readv: allow it in the container's seccomp "
             "profile";
    take_turn();
    if (g_stops.pid != ::getpid()) {  // also in a forked child: the parent's requests are not its
      g_stops.pid = ::getpid();
      g_stops.users = 0;
      for (StopSlot& slot : g_stops.slots) slot.word = kStopFree;
    }
    std::string problem;
    if (g_stops.slots[0].bytes == nullptr) {
      void* memory = ::mmap(nullptr, kSlots * kSlotBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) problem = "no memory";
      for (size_t i = 0; i < kSlots && problem.empty(); ++i)
        g_stops.slots[i].bytes = static_cast<char*>(memory) + i * kSlotBytes;
    }
    if (problem.empty() && g_stops.users == 0 && !is_installed()) {
      struct sigaction ours {};
      ours.sa_sigaction = &stop_detail::on_stop;
      ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
      ::sigfillset(&ours.sa_mask);
      for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ::sigdelset(&ours.sa_mask, fault);
      // The former handler is read first: a signal may arrive as soon as ours is installed.
      ::sigaction(kStopSignal, nullptr, &g_stops.former);
      if (::sigaction(kStopSignal, &ours, nullptr) != 0) problem = std::strerror(errno);
    }
    if (problem.empty()) ++g_stops.users;
    began_ = problem.empty();
    end_turn();
    return problem;
  }

  // Restores the former handler, unless another one has replaced ours, or another object uses it.
  void end() noexcept {
    if (!began_) return;
    began_ = false;
    take_turn();
    if (--g_stops.users == 0 && is_installed()) {
      // Ignoring a signal discards those that are pending in threads that block it.
      struct sigaction ignore {};
      ignore.sa_handler = SIG_IGN;
      ::sigaction(kStopSignal, &ignore, nullptr);
      ::sigaction(kStopSignal, &g_stops.former, nullptr);
    }
    end_turn();
  }

  // In a forked child.
  void forget() noexcept { began_ = false; }

  // Whether requests still reach our handler.
  bool is_installed() const noexcept {
    struct sigaction now {};
    return ::sigaction(kStopSignal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
           now.sa_sigaction == &stop_detail::on_stop;
  }

  // Between these two, the slots are this object's.
  void take_turn() noexcept {
    const auto own = static_cast<uint32_t>(::getpid());
    for (;;) {
      uint32_t holder = 0;
      if (__atomic_compare_exchange_n(&g_stops.turn, &holder, own, false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED))
        break;
      // A thread of the parent had it when this process was forked.
      if (holder != own && __atomic_compare_exchange_n(&g_stops.turn, &holder, own, false,
                                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        break;
      const timespec pause{0, 50000};
      ::nanosleep(&pause, nullptr);
    }
    seen_ = 0;
  }
  void end_turn() noexcept { __atomic_store_n(&g_stops.turn, 0u, __ATOMIC_RELEASE); }

  // Requests the stack of a thread. `stays`: it waits in the handler until release(), at most 2 ms.
  // False if the slot is in use or the thread has ended.
  bool ask(size_t number, uint32_t tid, const StackExtent& extent, bool stays) noexcept {
    StopSlot* const slot = &g_stops.slots[number];
    const uint32_t word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);
    if (word % kStopPhases == kStopCopies) return false;  // of a cancelled request
    const uint32_t request = word - word % kStopPhases + kStopPhases;
    __atomic_store_n(&slot->tid, tid, __ATOMIC_RELAXED);
    slot->extent = extent;
    slot->stays = stays;
    __atomic_store_n(&slot->word, request | kStopAsked, __ATOMIC_RELEASE);
    siginfo_t info{};
    info.si_code = SI_QUEUE;
    info.si_pid = ::getpid();
    info.si_uid = ::getuid();
    info.si_value.sival_ptr = &g_stops;
    const bool sent = ::syscall(SYS_rt_tgsigqueueinfo, static_cast<long>(info.si_pid),
                                static_cast<long>(tid), static_cast<long>(kStopSignal), &info) == 0;
    if (!sent) __atomic_store_n(&slot->word, request | kStopFree, __ATOMIC_RELEASE);
    return sent;
  }

  // Returns the next slot whose thread has copied, each once in a turn; -1 at the deadline.
  // `is_urgent`: the threads wait for this one, and wake it. That takes them longer than the copy.
  int next(int64_t deadline_ns, bool is_urgent) noexcept {
    for (int spins = kSpins;;) {
      const uint32_t answers = __atomic_load_n(&g_stops.answers, __ATOMIC_ACQUIRE);
      for (size_t i = 0; i < kSlots; ++i) {
        const uint32_t word = __atomic_load_n(&g_stops.slots[i].word, __ATOMIC_ACQUIRE);
        if ((word % kStopPhases != kStopCopied && word % kStopPhases != kStopGone) ||
            (seen_ >> i & 1) != 0)
          continue;
        seen_ |= uint64_t{1} << i;
        return static_cast<int>(i);
      }
      if (spins-- > 0) {
        stop_detail::pause_cpu();
        continue;
      }
      const int64_t left_ns = deadline_ns - monotonic_ns();
      if (left_ns <= 0) return -1;
      if (!is_urgent) {
        wait_word(&g_stops.answers, answers, left_ns < kPauseNs ? left_ns : kPauseNs);
        continue;
      }
      __atomic_store_n(&g_stops.waits, 1u, __ATOMIC_SEQ_CST);
      wait_word(&g_stops.answers, answers, left_ns);
      __atomic_store_n(&g_stops.waits, 0u, __ATOMIC_SEQ_CST);
    }
  }

  // The copy of a slot that next() returned, until the next request in it.
  CopiedStack stack(size_t number) const noexcept {
    const StopSlot& slot = g_stops.slots[number];
    return {slot.at, slot.bytes, slot.copied_bytes};
  }

  // Lets a thread run on. False if it does already, so that what was read of it may have changed.
  bool release(size_t number) noexcept {
    StopSlot* const slot = &g_stops.slots[number];
    const uint32_t word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);
    const uint32_t request = word - word % kStopPhases;
    const bool stayed = stop_detail::change_word(slot, request | kStopCopied, request | kStopFree);
    if (!stayed) __atomic_store_n(&slot->word, request | kStopFree, __ATOMIC_RELEASE);
    if (stayed && slot->stays) wake_one(&slot->word);
    return stayed;
  }

  // Withdraws a request; false if the thread has answered it meanwhile. It is then released, too.
  bool cancel(size_t number) noexcept {
    StopSlot* const slot = &g_stops.slots[number];
    const uint32_t word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);
    const uint32_t request = word - word % kStopPhases;
    if (stop_detail::change_word(slot, request | kStopAsked, request | kStopFree)) return true;
    if (__atomic_load_n(&slot->word, __ATOMIC_ACQUIRE) % kStopPhases != kStopCopies)
      release(number);
    return false;
  }

 private:
  static constexpr int kSpins = 200;  // some 10 us
  static constexpr int64_t kPauseNs = 100000;

  bool began_ = false;
  uint64_t seen_ = 0;
};

// Whether a thread of this process blocks the signal, which was sent to it. Then it is pending,
// too, unlike in our handler, where it is blocked as well. Reads /proc.
inline bool blocks_stops(uint32_t tid) noexcept {
  char path[48];
  ::snprintf(path, sizeof path, "/proc/self/task/%u/status", tid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[4096];
  const ssize_t size = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (size <= 0) return false;
  text[size] = 0;
  for (const char* const name : {"SigPnd:", "SigBlk:"}) {
    const char* const mask = ::strstr(text, name);
    if (mask == nullptr || (::strtoull(mask + 7, nullptr, 16) >> (kStopSignal - 1) & 1) == 0)
      return false;
  }
  return true;
}

// Reads the registers that the kernel tells of a thread that is off the CPU, in a system call or
// preempted: all but its frame pointer. False if it runs or has ended.
inline bool read_waiting_stack(uint32_t tid, StackRegisters* at) noexcept {
  char path[48];
  ::snprintf(path, sizeof path, "/proc/self/task/%u/syscall", tid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[256];
  const ssize_t size = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (size <= 0 || text[0] == 'r') return false;  // "running"
  text[size] = 0;
  const char* pc = ::strrchr(text, ' ');  // number, arguments if it is not -1, sp, pc
  if (pc == nullptr || pc == text) return false;
  const char* sp = pc - 1;
  while (sp != text && *sp != ' ') --sp;
  *at = {static_cast<uintptr_t>(::strtoull(pc, nullptr, 16)),
         static_cast<uintptr_t>(::strtoull(sp, nullptr, 16)), 0, 0, false};
  return at->pc != 0 && at->sp != 0;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
