// SPDX-License-Identifier: Apache-2.0
// ThreadState: the thread state that propagate() applies on another thread.
#include <pybind11/typing.h>

#include "adapters/python/followed_work.hpp"
#include "adapters/python/gil.hpp"
#include "bindings/register.hpp"
#include "fastprof/primitives/thread_local_state.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

using python_adapter::sleep_if_ended;

void register_propagate(py::module_& module) {
  py::class_<ThreadLocalState>(
      module, "ThreadState",
      "A snapshot of the creating thread's thread-local sessions, callbacks and debug info.")
      .def(py::init<>())
      .def(
          "call",
          [](const ThreadLocalState& self, const py::object& function,
             const py::typing::Tuple<py::object, py::ellipsis>& args,
             const py::typing::Dict<py::str, py::object>& kwargs) -> py::object {
            const ThreadLocalStateGuard guard(self);
            PyObject* result = sleep_if_ended(
                [&] { return PyObject_Call(function.ptr(), args.ptr(), kwargs.ptr()); });
            if (result == nullptr) throw py::error_already_set();
            return py::reinterpret_steal<py::object>(result);
          },
          py::arg("function"), py::arg("args"), py::arg("kwargs"),
          "Call function(*args, **kwargs) with this state on the calling thread.");
  module.def(
      "save_sessions",
      [] {
        PyObject* saved = python_adapter::save_sessions();
        if (saved == nullptr) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(saved);
      },
      "Return the thread-local sessions of the calling thread, opaque; None if it is in none.");
  module.def(
      "call_in_sessions",
      [](const py::object& saved, const py::object& function,
         const py::typing::Tuple<py::object, py::ellipsis>& args,
         const py::typing::Dict<py::str, py::object>& kwargs) {
        PyObject* result =
            python_adapter::call_in_sessions(saved.ptr(), function.ptr(), args.ptr(), kwargs.ptr());
        if (result == nullptr) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(result);
      },
      py::arg("saved"), py::arg("function"), py::arg("args"), py::arg("kwargs"),
      "Call function(*args, **kwargs) in the sessions that save_sessions() returned.");
  module.def(
      "set_sessions_variable",
      [](const py::object& variable) {
        python_adapter::set_sessions_variable(variable.is_none() ? nullptr : variable.ptr());
      },
      py::arg("variable"),
      "Run the steps of tasks in the sessions that this context variable holds; None: no "
      "more.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
