// SPDX-License-Identifier: Apache-2.0
// Propagation of thread-local sessions to work on other threads: see followed_work.hpp.
#include "adapters/python/followed_work.hpp"

#include <new>

#include "adapters/python/gil.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

using Membership = SessionPropagation::Membership;

constexpr const char* kCapsule = "fastprof.sessions";

void free_membership(PyObject* capsule) {
  delete static_cast<Membership*>(PyCapsule_GetPointer(capsule, kCapsule));
}

const Membership* membership_of(PyObject* saved) noexcept {
  if (!PyCapsule_IsValid(saved, kCapsule)) return nullptr;
  return static_cast<const Membership*>(PyCapsule_GetPointer(saved, kCapsule));
}

}  // namespace

PyObject* ContextSessions::g_variable = nullptr;

PyObject* save_sessions() noexcept {
  const Membership own = SessionPropagation::save();
  if (own.bits == 0) Py_RETURN_NONE;
  auto* kept = new (std::nothrow) Membership(own);
  if (kept == nullptr) return PyErr_NoMemory();
  PyObject* capsule = PyCapsule_New(kept, kCapsule, &free_membership);
  if (capsule == nullptr) delete kept;
  return capsule;
}

PyObject* call_in_sessions(PyObject* saved, PyObject* function, PyObject* args, PyObject* kwargs) {
  const Membership* membership = membership_of(saved);
  const SessionPropagation::Stay stay =
      SessionPropagation::enter(membership != nullptr ? *membership : Membership{});
  PyObject* result = sleep_if_ended([&] { return PyObject_Call(function, args, kwargs); });
  SessionPropagation::leave(stay);
  return result;
}

void set_sessions_variable(PyObject* variable) noexcept {
  PyObject* former = ContextSessions::g_variable;
  Py_XINCREF(variable);
  ContextSessions::g_variable = variable;
  Py_XDECREF(former);
}

void ContextSessions::enter() noexcept {
  PyObject* saved = nullptr;
  if (PyContextVar_Get(g_variable, nullptr, &saved) < 0) {
    PyErr_Clear();
    return;
  }
  if (saved == nullptr) return;
  if (const Membership* membership = membership_of(saved)) {
    stay_ = SessionPropagation::enter(*membership);
    entered_ = true;
  }
  Py_DECREF(saved);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
