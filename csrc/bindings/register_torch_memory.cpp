// SPDX-License-Identifier: Apache-2.0
// _core.torch_memory_* and torch_travel_*: what lies in the debug info of libtorch's threads, for
// adapters/torch/memory.py and threads.py.
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <string>

#include "adapters/torch/memory_reporter.hpp"
#include "adapters/torch/session_travel.hpp"
#include "bindings/register.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// In the order of fastprof.adapters.torch.layout.MEMORY.
using Kinds = std::array<uint32_t, 2>;

std::optional<Kinds> torch_known_memory_layout(const std::string& version) {
  const torch_adapter::DebugInfoKinds* known = torch_adapter::find_debug_info_kinds(version);
  if (known == nullptr) return std::nullopt;
  return Kinds{known->bytes, known->profiler_state};
}

std::string torch_memory_prepare(const std::string& version, const std::optional<Kinds>& layout) {
  const py::gil_scoped_release release;
  if (!layout) return torch_adapter::prepare_memory(version);
  const torch_adapter::DebugInfoKinds given{(*layout)[0], (*layout)[1]};
  return torch_adapter::prepare_memory(version, &given);
}

std::string torch_memory_self_test(int forged, const Kinds& layout) {
  if (forged < 0 || forged > 2) raise<ValueError>("forged must be 0, 1 or 2");
  const char* why = nullptr;
  const torch_adapter::DebugInfoFunctions* functions =
      torch_adapter::find_debug_info_functions({layout[0], layout[1]}, &why);
  if (functions != nullptr) {
    const py::gil_scoped_release release;
    why = torch_adapter::test_debug_info(*functions,
                                         static_cast<torch_adapter::ForgedLayout>(forged));
  }
  return why != nullptr ? why : "";
}

}  // namespace

void register_torch_memory(py::module_& module) {
  module.def("torch_known_memory_layout", &torch_known_memory_layout, py::arg("version"),
             "Bytes of a kind of debug info, and the number of PROFILER_STATE where kinds are "
             "enumerated; None for a version that is not in the table.");
  module.def("torch_memory_prepare", &torch_memory_prepare, py::arg("version"),
             py::arg("layout") = py::none(),
             "Check how the loaded libtorch reports memory, after torch_prepare(); empty when its "
             "allocations can be observed, else the reason. layout: for a version that is not in "
             "the table, what fastprof.adapters.torch.layout has found.");
  module.def("torch_memory_start", &torch_adapter::start_reporting,
             py::call_guard<py::gil_scoped_release>(),
             "Threads report memory from now on, until as many torch_memory_stop(). False: another "
             "profiler has this thread's reports.");
  module.def("torch_memory_stop", &torch_adapter::stop_reporting,
             py::call_guard<py::gil_scoped_release>());
  module.def("torch_memory_withdraw", &torch_adapter::withdraw_reporter,
             py::call_guard<py::gil_scoped_release>(),
             "Leave this thread's reports to another profiler; False when it had none of ours. "
             "They come back with the first op after that one has gone.");
  module.def("torch_memory_after_fork_in_child", [] {
    torch_adapter::forget_reporters_in_child();
    torch_adapter::forget_travels_in_child();
  });
  module.def(
      "torch_travel_start", &torch_adapter::start_travel, py::call_guard<py::gil_scoped_release>(),
      "Work that this thread gives to libtorch's threads from now on belongs to the "
      "thread-local sessions that it belongs to now. Returns what torch_travel_stop() takes.");
  module.def("torch_travel_stop", &torch_adapter::stop_travel, py::arg("travel"),
             py::call_guard<py::gil_scoped_release>());
  module.def(
      "torch_memory_self_test", &torch_memory_self_test, py::arg("forged") = 0,
      py::arg("layout") = Kinds{8, 0},
      "What the self-test of memory reports says; empty: they hold. `forged`: 1 another order "
      "of functions, 2 other fields of a link.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
