// SPDX-License-Identifier: Apache-2.0
// Propagates thread-local sessions with work: the sessions of the thread that submits it are in
// effect on the thread that runs it.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/session_propagation.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Returns the thread-local sessions of the calling thread for call_in_sessions(): a capsule, or
// None if it is in none. New reference; null with an error set. GIL.
PyObject* save_sessions() noexcept;

// Calls function(*args, **kwargs) with the sessions of save_sessions() in effect. New reference;
// null with an error set. GIL.
PyObject* call_in_sessions(PyObject* saved, PyObject* function, PyObject* args, PyObject* kwargs);

// Sets the context variable that holds the result of save_sessions(), so that tasks inherit it;
// null: sessions do not follow tasks. GIL; takes a reference.
void set_sessions_variable(PyObject* variable) noexcept;

// While it exists, the sessions carried by the current context are in effect on this thread. GIL.
class ContextSessions {
 public:
  ContextSessions() noexcept {
    if (FASTPROF_UNLIKELY(g_variable != nullptr)) enter();
  }
  ~ContextSessions() {
    if (FASTPROF_UNLIKELY(entered_)) SessionPropagation::leave(stay_);
  }
  ContextSessions(const ContextSessions&) = delete;
  ContextSessions& operator=(const ContextSessions&) = delete;

 private:
  friend void set_sessions_variable(PyObject*) noexcept;
  void enter() noexcept;

  static PyObject* g_variable;
  SessionPropagation::Stay stay_{};
  bool entered_ = false;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
