// SPDX-License-Identifier: Apache-2.0
// The tables of the Metal profiler at exit and on SIGINT, in child processes.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "../../doubles/metal/fake_platform.hpp"
#include "check.hpp"
#include "fastprof/metal/exit_report.hpp"
#include "text_checks.hpp"

using text_checks::count_of;

namespace {

namespace metal = fastprof::metal;

struct Ended {
  std::string text;  // what it wrote to standard error
  int status = 0;    // of waitpid()
};

// Runs a function in a child process, which exits with its result.
Ended run_in_child(const std::function<int()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    signal(SIGINT, SIG_DFL);
    std::exit(body());
  }
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    ended.text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  waitpid(child, &ended.status, 0);
  return ended;
}

// Never destroyed: the report at exit uses it.
fakes::FakePlatform& platform() {
  static auto* const only = new fakes::FakePlatform;
  return *only;
}

std::shared_ptr<metal::Profiler> armed() {
  auto profiler = metal::Profiler::make(platform(), {0, 0, metal::OPERATION_STATS});
  metal::ExitReport::instance().arm(profiler);
  static const int kernel = 0;
  profiler->begin_profile_kernel(&kernel, "add");
  profiler->end_profile_kernel(&kernel);
  return profiler;
}

void on_previous(int) {
  const char text[] = "previous\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(9);
}
void on_previous_with_info(int signal, siginfo_t* info, void*) {
  if (info != nullptr && info->si_signo == signal) on_previous(signal);
}

}  // namespace

TEST(the_table_comes_at_exit_after_pending_work) {
  const Ended ended = run_in_child([] {
    armed();
    platform().on_synchronize_all = [] { platform().stream.complete(3, 0); };
    return 5;
  });
  CHECK(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 5);
  CHECK_EQ(count_of(ended.text, " MPS Operations Profiling: "), 1u);
  CHECK_EQ(count_of(ended.text, "3.000"), 2u);  // mean and total
}

TEST(an_interrupt_prints_once_and_ends_the_process_as_without_us) {
  const Ended ended = run_in_child([] {
    armed();
    raise(SIGINT);
    return 5;
  });
  CHECK(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGINT);
  CHECK_EQ(count_of(ended.text, " MPS Operations Profiling: "), 1u);
}

TEST(an_ignored_interrupt_stays_ignored) {
  const Ended ended = run_in_child([] {
    signal(SIGINT, SIG_IGN);
    armed();
    raise(SIGINT);
    return 0;
  });
  CHECK_EQ(ended.status, 0);
  CHECK_EQ(count_of(ended.text, " MPS Operations Profiling: "), 1u);
}

TEST(a_handler_that_somebody_installed_later_stays) {
  for (const bool with_info : {false, true}) {
    const Ended ended = run_in_child([with_info] {
      platform().on_synchronize_all = [] { platform().stream.complete(3, 0); };
      armed();
      struct sigaction later = {};
      later.sa_handler = &on_previous;
      if (with_info) {
        later.sa_flags = SA_SIGINFO;
        later.sa_sigaction = &on_previous_with_info;
      }
      sigaction(SIGINT, &later, nullptr);
      metal::ExitReport::instance().finish();
      struct sigaction now = {};
      sigaction(SIGINT, nullptr, &now);
      return now.sa_sigaction == later.sa_sigaction ? 0 : 1;
    });
    CHECK_EQ(ended.status, 0);
  }
}

TEST(an_interrupt_of_the_holder_of_the_lock_is_deferred) {
  static int received = 0;
  for (const int signal : {SIGINT, SIGHUP}) {
    metal::SignalAwareLock lock;
    received = 0;
    struct sigaction ours = {}, previous = {};
    ours.sa_handler = [](int) { ++received; };
    sigaction(signal, &ours, &previous);
    CHECK(!lock.defer_if_held(signal));
    lock.lock();
    CHECK(lock.defer_if_held(signal));
    CHECK_EQ(received, 0);
    lock.unlock();
    CHECK_EQ(received, 1);
    lock.lock();
    lock.unlock();
    CHECK_EQ(received, 1);
    CHECK(!lock.defer_if_held(signal));  // released
    // Another thread's lock is none of the handler's business.
    lock.lock();
    std::thread([&] { CHECK(!lock.defer_if_held(signal)); }).join();
    lock.unlock();
    CHECK_EQ(received, 1);
    sigaction(signal, &previous, nullptr);
  }
}

// Signposts::open() is called with the profiler's lock held.
TEST(an_interrupt_within_the_profiler_prints_when_it_has_left) {
  struct Interrupted : fakes::FakePlatform {
    bool open(metal::SignpostLog which) override {
      raise(SIGINT);
      const char text[] = "still within\n";
      if (write(2, text, sizeof text - 1) < 0) _exit(9);
      return FakePlatform::open(which);
    }
  };
  const Ended ended = run_in_child([] {
    static auto* const interrupted = new Interrupted;
    const auto profiler = metal::Profiler::make(*interrupted, {0, 0, metal::OPERATION_STATS});
    metal::ExitReport::instance().arm(profiler);
    profiler->start_trace("event", false);
    return 5;
  });
  CHECK(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGINT);
  CHECK_EQ(count_of(ended.text, "There are no MPS operations"), 1u);
  CHECK(ended.text.find("still within") < ended.text.find("There are no"));
}

TEST(a_forked_child_prints_nothing) {
  const Ended ended = run_in_child([] {
    armed();
    platform().on_synchronize_all = [] { platform().stream.complete(3, 0); };
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
  });
  CHECK_EQ(ended.status, 0);
  CHECK_EQ(count_of(ended.text, " MPS Operations Profiling: "), 1u);
}
