// SPDX-License-Identifier: Apache-2.0
// Work that thread-local sessions follow: the sessions of the thread that hands it over are in
// effect on the thread that runs it.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"
#include "fastprof/primitives/session_propagation.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// The thread-local sessions of the calling thread, for call_in_sessions(): a capsule, or None if it
// is in none. New reference; null with an error set.
PyObject* save_sessions() noexcept;

// Calls function(*args, **kwargs) with the sessions of save_sessions() in effect. New reference;
// null with an error set. GIL.
PyObject* call_in_sessions(PyObject* saved, PyObject* function, PyObject* args, PyObject* kwargs);

// The context variable that holds what save_sessions() returned, so that tasks carry it; null: no
// session is followed. GIL; takes a reference.
void set_sessions_variable(PyObject* variable) noexcept;

// Puts the sessions in effect that the current context carries, for the lifetime of this. GIL.
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
