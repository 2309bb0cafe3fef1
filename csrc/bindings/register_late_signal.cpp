// SPDX-License-Identifier: Apache-2.0
// Answers a signal that Python's handler cannot, because the main thread is inside a call of C that
// does not return: a device that is waited for, a long product of matrices. Python's own handler
// only notes the signal; the main thread runs the function of signal.signal() between two of its
// instructions.
#include <pthread.h>
#include <pybind11/pybind11.h>
#include <pybind11/typing.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <utility>

#include "adapters/python/gil.hpp"
#include "bindings/register.hpp"
#include "fastprof/platform/threads.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::ensure_gil;
using python_adapter::sleep_if_ended;
using python_adapter::WithoutGil;

// One a process. Written with the GIL, before the handler is in force or after it no longer is;
// `arrived` and `ended` also by the handler and the thread.
struct SignalWatch {
  long grace_ms = 0;
  long limit_ms = 0;
  PyObject* late = nullptr;       // called by the thread
  void (*python)(int) = nullptr;  // notes the signal for the main thread
  sem_t wake;
  pthread_t thread;
  bool has_thread = false;
  int arrived = 0;  // relaxed: says only whether this is the first; sem_post orders the rest
  int ended = 0;    // set before sem_post, read after sem_wait
#ifdef __linux__
  timer_t timer;
  bool has_timer = false;
#endif
};
SignalWatch watch;

timespec duration(long ms) noexcept {
  return {ms / 1000, ms % 1000 * 1000000};
}

// Has the signal come again in `ms`; 0: never. Async-signal-safe.
void set_limit(long ms) noexcept {
#ifdef __linux__
  itimerspec limit = {};
  limit.it_value = duration(ms);
  if (watch.has_timer) timer_settime(watch.timer, 0, &limit, nullptr);
#else
  (void)ms;
#endif
}

// The second signal, which may be the timer's, does what the system does without a handler.
extern "C" void fastprof_on_watched_signal(int number) {
  const int error = errno;
  if (__atomic_exchange_n(&watch.arrived, 1, __ATOMIC_RELAXED) == 0) {
    set_limit(watch.limit_ms);
    sem_post(&watch.wake);
    watch.python(number);
  } else {
    ::signal(number, SIG_DFL);
    ::raise(number);  // delivered when this handler has returned
  }
  errno = error;
}

void wait_for_wake() noexcept {
  while (sem_wait(&watch.wake) != 0 && errno == EINTR) {
  }
}

// Sleeps until the grace is over or the watch has ended; sem_timedwait goes by a clock that is set.
bool ended_within_grace() noexcept {
  const timespec pause = duration(10);
  for (long ms = 0; ms < watch.grace_ms; ms += 10) {
    if (__atomic_load_n(&watch.ended, __ATOMIC_ACQUIRE) != 0) return true;
    nanosleep(&pause, nullptr);
  }
  return __atomic_load_n(&watch.ended, __ATOMIC_ACQUIRE) != 0;
}

void* wait_and_answer(void*) noexcept {
  platform::name_this_thread("fastprof-signal");
  wait_for_wake();
  if (ended_within_grace()) return nullptr;
  const PyGILState_STATE state =
      ensure_gil();  // never, if the call of C keeps the GIL: the limit is for that
  if (__atomic_load_n(&watch.ended, __ATOMIC_ACQUIRE) == 0) {
    set_limit(0);
    PyObject* result = sleep_if_ended([] { return PyObject_CallNoArgs(watch.late); });
    if (result == nullptr) PyErr_WriteUnraisable(watch.late);
    Py_XDECREF(result);
  }
  PyGILState_Release(state);
  return nullptr;
}

void start_thread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watch.has_thread = pthread_create(&watch.thread, nullptr, &wait_and_answer, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void end_thread() {
  if (!watch.has_thread) return;
  watch.has_thread = false;
  __atomic_store_n(&watch.ended, 1, __ATOMIC_RELEASE);  // read in ended_within_grace
  sem_post(&watch.wake);
  const WithoutGil release;
  pthread_join(watch.thread, nullptr);
}

bool watch_signal(int number, long grace_ms, long limit_ms, py::typing::Callable<void()> late) {
  struct sigaction action = {};
  const bool noted = sigaction(number, nullptr, &action) == 0 &&
                     (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler != SIG_DFL &&
                     action.sa_handler != SIG_IGN;
  if (!noted || watch.late != nullptr || sem_init(&watch.wake, 0, 0) != 0) return false;
  watch.grace_ms = grace_ms;
  watch.limit_ms = limit_ms;
  watch.late = late.release().ptr();
  watch.python = action.sa_handler;
  watch.arrived = watch.ended = 0;
#ifdef __linux__
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = number;
  watch.has_timer = timer_create(CLOCK_MONOTONIC, &event, &watch.timer) == 0;
#endif
  start_thread();
  action.sa_handler = fastprof_on_watched_signal;
  sigaction(number, &action, nullptr);
  return true;
}

void end_signal_watch(bool in_child) {
  if (watch.late == nullptr) return;
  if (in_child) {
    watch.has_thread = false;  // neither threads nor timers are inherited
  } else {
    set_limit(0);
    end_thread();
#ifdef __linux__
    if (watch.has_timer) timer_delete(watch.timer);
#endif
  }
#ifdef __linux__
  watch.has_timer = false;
#endif
  Py_DECREF(std::exchange(watch.late, nullptr));
}

// A fork in a process of several threads warns, so that there is none of ours meanwhile.
void pause_signal_watch(bool pause) {
  if (watch.late == nullptr || __atomic_load_n(&watch.arrived, __ATOMIC_RELAXED) != 0) return;
  if (pause) {
    end_thread();
  } else if (!watch.has_thread) {
    __atomic_store_n(&watch.ended, 0, __ATOMIC_RELAXED);  // no thread reads it
    start_thread();
  }
}

}  // namespace

void register_late_signal(py::module_& module) {
  module.def(
      "watch_signal", &watch_signal, py::arg("number"), py::arg("grace_ms"), py::arg("limit_ms"),
      py::arg("late"),
      "Call late() in a thread of its own if the main thread has not ended the watch grace_ms "
      "after the signal, for which signal.signal() has a function. A second signal kills the "
      "process, and so do limit_ms (Linux) if no Python code could run. False if there is no such "
      "function, or a watch. Main thread.");
  module.def("end_signal_watch", &end_signal_watch, py::arg("in_child") = false,
             "End the watch and its thread, if there is one; call it before signal.signal() takes "
             "the function away. in_child: in a forked child. Not from late(). Main thread.");
  module.def(
      "pause_signal_watch", &pause_signal_watch, py::arg("pause"),
      "End the thread of the watch before a fork, start it again after. The thread that forks.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
