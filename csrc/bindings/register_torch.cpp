// SPDX-License-Identifier: Apache-2.0
// _core.torch_*: the observer of PyTorch's ops, for fastprof.profiler.torch_ops.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <string>

#include "adapters/torch/op_observer.hpp"
#include "adapters/torch/self_test.hpp"
#include "bindings/register.hpp"
#include "bindings/torch_fast_ranges.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using SeenTuple = py::typing::Tuple<py::str, py::int_, py::int_, py::int_, py::int_>;

std::string torch_self_test(const std::string& version, bool cxx11_abi, int shift) {
  const torch_adapter::Layout* known = torch_adapter::find_layout(version, cxx11_abi);
  if (known == nullptr) raise<ValueError>("torch " + version + " is not in the table of layouts");
  torch_adapter::Layout layout = *known;
  layout.sequence_nr += static_cast<uint32_t>(shift);
  const char* why = nullptr;
  const torch_adapter::Functions* functions = torch_adapter::find_functions(&why);
  if (functions != nullptr) {
    const py::gil_scoped_release release;
    why = torch_adapter::self_test(*functions, layout);
  }
  return why != nullptr ? why : "";
}

py::typing::Tuple<py::int_, py::typing::List<SeenTuple>> torch_observe(
    const py::typing::Callable<py::object()>& work) {
  const torch_adapter::Observed seen = torch_adapter::observe([&work] { work(); });
  py::typing::List<SeenTuple> ops;
  for (const torch_adapter::SeenOp& op : seen.ops)
    ops.append(
        py::make_tuple(op.name, op.scope, op.sequence_nr, op.thread_id, op.forward_thread_id));
  return py::make_tuple(seen.thread_id, ops);
}

}  // namespace

void register_torch(py::module_& module) {
  module.def("torch_prepare", &torch_adapter::prepare, py::arg("version"), py::arg("cxx11_abi"),
             py::call_guard<py::gil_scoped_release>(),
             "Check the loaded libtorch; empty when its ops can be observed, else the reason.");
  module.def("torch_start_observing", &torch_adapter::start_observing,
             py::call_guard<py::gil_scoped_release>(),
             "Record ops from now on, until as many torch_stop_observing().");
  module.def("torch_stop_observing", &torch_adapter::stop_observing,
             py::call_guard<py::gil_scoped_release>());
  module.def("torch_after_fork_in_child", [] {
    torch_adapter::forget_observers_in_child();
    forget_fast_ranges_in_child();
  });
  module.def(
      "torch_observe_fast_ranges",
      [](const py::object& type) { return observe_fast_ranges(type.ptr()); }, py::arg("type"),
      "Record the ranges of torch._C._profiler._RecordFunctionFast; empty, or the reason why not.");
  module.def("torch_release_fast_ranges", &release_fast_ranges,
             "As many end what torch_observe_fast_ranges() began.");
  module.def("torch_observe", &torch_observe, py::arg("work"),
             "Call work(); returns libtorch's id of this thread and (name, scope, sequence number, "
             "thread, forward thread) "
             "of each op it ran.");
  module.def("torch_self_test", &torch_self_test, py::arg("version"), py::arg("cxx11_abi"),
             py::arg("shift") = 0,
             "What the self-test says of a version's layout, its sequence number moved by `shift` "
             "bytes; empty: it holds.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
