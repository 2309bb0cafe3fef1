// SPDX-License-Identifier: Apache-2.0
// Interrupts: a thread that is interrupted by signals at a steady pace.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

// A timer that interrupts the calling thread with SIGRTMIN while in scope: `pause_ns` after each
// end of `handler` (at most one second), so that what is interrupted advances however slow the
// machine is. One at a time in a thread; one handler in a process.
class Interrupts {
 public:
  Interrupts(void (*handler)(int), long pause_ns) : pause_{{0, 0}, {0, pause_ns}} {
    handler_.store(handler);
    struct sigaction action {};
    action.sa_handler = [](int number) {
      handler_.load()(number);
      if (current_ != nullptr) current_->arm();
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGRTMIN, &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN;
    event._sigev_un._tid = static_cast<int>(::syscall(SYS_gettid));
    made_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    if (!made_) return;
    current_ = this;
    arm();
  }
  ~Interrupts() {
    current_ = nullptr;  // a signal that is still on its way arms nothing
    if (made_) ::timer_delete(timer_);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool made() const noexcept { return made_; }

 private:
  void arm() const noexcept { ::timer_settime(timer_, 0, &pause_, nullptr); }

  static inline std::atomic<void (*)(int)> handler_{nullptr};  // the same one from all threads
  static inline thread_local const Interrupts* volatile current_ = nullptr;

  timer_t timer_{};
  itimerspec pause_;
  bool made_ = false;
};
