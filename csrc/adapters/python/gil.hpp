// SPDX-License-Identifier: Apache-2.0
// The GIL, taken and released so that a daemon thread inside fastprof cannot abort the process when
// the interpreter ends.
//
// From then on CPython (before 3.14) ends every other thread that takes the GIL by pthread_exit().
// glibc unwinds the thread's stack for that: std::terminate() at the first noexcept function, which
// destructors are, and destructors of Python objects that run without the GIL. Here such a thread
// sleeps until the process ends, as CPython 3.14 has it.
#pragma once

#include <Python.h>
#include <unistd.h>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Calls a function that takes the GIL or runs Python code, and returns its result. C++ exceptions
// propagate. Does not return if pthread_exit() ends the thread: the GIL is then not held. The
// function owns no Python object, which would be released without the GIL on the way here: it
// calls PyObject_Call() and the like, not pybind11's call operator.
template <class Function>
auto sleep_if_ended(const Function& function) -> decltype(function()) {
#if defined(__GLIBCXX__)
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
#else  // pthread_exit() does not unwind C++ frames on the other systems
  return function();
#endif
}

// PyGILState_Ensure().
inline PyGILState_STATE ensure_gil() noexcept {
  return sleep_if_ended([] { return PyGILState_Ensure(); });
}

// Releases the GIL for a scope.
class WithoutGil {
 public:
  WithoutGil() noexcept : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    sleep_if_ended([this] { PyEval_RestoreThread(thread_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

// Holds the GIL for a scope, on any thread.
class WithGil {
 public:
  WithGil() noexcept : state_(ensure_gil()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
