// SPDX-License-Identifier: Apache-2.0
// ExitReport: prints a profiler's tables once, when the process exits or receives SIGINT.
//
// A signal handler may neither lock nor allocate. Ours writes a byte to a pipe, on which a thread
// of its own waits that prints; the handler waits for the thread, for a bounded time, then restores
// the previous action and passes the signal on to it.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/metal/profiler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// One for each library that includes it. Never destroyed.
class ExitReport {
 public:
  static ExitReport& instance() {
    static ExitReport* const only = new ExitReport;
    return *only;
  }

  // From now on, the profiler's tables are printed at exit and on the first SIGINT. Further calls
  // replace the profiler. Raises UnavailableError if a pipe or a thread cannot be made. Any thread.
  void arm(std::shared_ptr<Profiler> profiler) {
    const std::lock_guard<std::mutex> hold(lock_);
    profiler_ = std::move(profiler);
    if (armed_) return;
    if (::pipe(pipe_) != 0)
      raise<UnavailableError>(
          "the tables of the Metal profiler cannot be printed on SIGINT: no "
          "pipe could be made (too many open files?)");
    pid_ = ::getpid();
    printer_ = std::thread([this] { print_when_asked(); });
    struct sigaction ours = {};
    ours.sa_sigaction = &on_interrupt;
    ours.sa_flags = SA_RESTART | SA_SIGINFO;
    sigfillset(&ours.sa_mask);
    ::sigaction(SIGINT, &ours, &previous_);
    std::atexit([] { instance().finish(); });
    armed_ = true;
  }

  // Prints what has not been printed, after waiting for pending work, and restores the previous
  // action of SIGINT if nobody has replaced ours. exit() calls it.
  void finish() {
    if (pid_ != ::getpid()) return;  // a forked child has neither the thread nor the streams
    restore();
    std::shared_ptr<Profiler> profiler;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      profiler = profiler_;
      if (!std::exchange(armed_, false)) return;
    }
    const char quit = 'q';
    while (::write(pipe_[1], &quit, 1) < 0 && errno == EINTR) {
    }
    if (printer_.joinable()) printer_.join();
    if (profiler != nullptr) profiler->log_statistics(true);
  }

 private:
  // Longest time that a handler waits for the tables.
  static constexpr int kWaitMs = 2000;

  ExitReport() = default;

  void print_when_asked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    char command = 0;
    for (;;) {
      const ssize_t got = ::read(pipe_[0], &command, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got != 1 || command == 'q') return;
      std::shared_ptr<Profiler> profiler;
      {
        const std::lock_guard<std::mutex> hold(lock_);
        profiler = profiler_;
      }
      // Without waiting: the program may be the one that has to commit the work.
      if (profiler != nullptr) profiler->log_statistics(false);
      __atomic_store_n(&printed_, 1, __ATOMIC_RELEASE);
    }
  }

  // Restores the previous action if ours is still in effect. Async-signal-safe.
  void restore() noexcept {
    struct sigaction now = {};
    if (::sigaction(SIGINT, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == &on_interrupt)
      ::sigaction(SIGINT, &previous_, nullptr);
  }

  static void on_interrupt(int signal, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    ExitReport& report = instance();
    if (report.pid_ == ::getpid()) {
      // Unlocked: the pointer is set before the handler is installed, and kept.
      Profiler* const profiler = report.profiler_.get();
      if (profiler != nullptr && profiler->defer_if_locked(signal)) {
        errno = saved_errno;
        return;
      }
      const char print = 'p';
      if (::write(report.pipe_[1], &print, 1) == 1)
        for (int waited = 0;
             waited < kWaitMs && __atomic_load_n(&report.printed_, __ATOMIC_ACQUIRE) == 0;
             ++waited) {
          const timespec pause = {0, 1000000};
          ::nanosleep(&pause, nullptr);
        }
    }
    const struct sigaction previous = report.previous_;
    report.restore();
    errno = saved_errno;
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
      previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler == SIG_DFL) {
      ::raise(signal);  // delivered when this handler returns: the process ends as without us
    } else if (previous.sa_handler != SIG_IGN) {
      previous.sa_handler(signal);
    }
  }

  std::mutex lock_;
  std::shared_ptr<Profiler> profiler_;
  std::thread printer_;
  int pipe_[2] = {-1, -1};
  pid_t pid_ = 0;
  bool armed_ = false;
  int printed_ = 0;  // release, acquire
  struct sigaction previous_ = {};
};

}  // namespace metal
FASTPROF_NAMESPACE_END
