// SPDX-License-Identifier: Apache-2.0
// ThreadState: the thread state that propagate() applies on another thread.
#include <pybind11/typing.h>

#include "bindings/register.hpp"
#include "fastprof/primitives/thread_local_state.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

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
            return function(*args, **kwargs);
          },
          py::arg("function"), py::arg("args"), py::arg("kwargs"),
          "Call function(*args, **kwargs) with this state on the calling thread.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
