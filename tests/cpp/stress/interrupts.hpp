// SPDX-License-Identifier: Apache-2.0
// Interrupts: a thread that is interrupted by signals at a steady pace.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A timer that interrupts the calling thread with SIGRTMIN while in scope.
class Interrupts {
 public:
  Interrupts(void (*handler)(int), long period_ns) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGRTMIN, &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN;
    event._sigev_un._tid = static_cast<int>(::syscall(SYS_gettid));
    made_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    const itimerspec period{{0, period_ns}, {0, period_ns}};
    if (made_) ::timer_settime(timer_, 0, &period, nullptr);
  }
  ~Interrupts() {
    if (made_) ::timer_delete(timer_);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool made() const noexcept { return made_; }

 private:
  timer_t timer_{};
  bool made_ = false;
};
