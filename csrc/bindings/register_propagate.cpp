// SPDX-License-Identifier: Apache-2.0
// ThreadState: what propagate() carries to another thread.
#include <pybind11/typing.h>

#include "bindings/register.hpp"
#include "fastprof/primitives/thread_local_state.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

void register_propagate(py::module_& module) {
  py::class_<ThreadLocalState>(
      module, "ThreadState",
      "Thread-local sessions, callbacks and debug info of the thread that makes it.")
      .def(py::init<>())
      .def(
          "call",
          [](const ThreadLocalState& self, const py::object& function,
             const py::typing::Tuple<py::object, py::ellipsis>& args,
             const py::typing::Dict<py::str, py::object>& kwargs) -> py::object {
            const ThreadLocalStateGuard guard(self);
            return function(*args, **kwargs);
          },
          py::arg("function"), py::arg("args"), py::arg("kwargs"),
          "Call it with that state on this thread.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
