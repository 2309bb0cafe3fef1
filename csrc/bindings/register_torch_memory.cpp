// SPDX-License-Identifier: Apache-2.0
// _core.torch_memory_* and torch_propagation_*: fastprof's entries in the debug info of libtorch's
// threads, for adapters/torch/memory.py and threads.py.
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <string>

#include "adapters/python/gil.hpp"
#include "adapters/torch/debug_info/memory_reporter.hpp"
#include "adapters/torch/ops/torch_propagation.hpp"
#include "bindings/register.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

// Ordered as fastprof.adapters.torch.layout.MEMORY.
using Kinds = std::array<uint32_t, 2>;

std::optional<Kinds> torch_known_memory_layout(const std::string& version) {
  const torch_adapter::DebugInfoKinds* known = torch_adapter::find_debug_info_kinds(version);
  if (known == nullptr) return std::nullopt;
  return Kinds{known->bytes, known->profiler_state};
}

std::string torch_memory_prepare(const std::string& version, const std::optional<Kinds>& layout) {
  const WithoutGil release;
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
    const WithoutGil release;
    why = torch_adapter::test_debug_info(*functions,
                                         static_cast<torch_adapter::ForgedLayout>(forged));
  }
  return why != nullptr ? why : "";
}

}  // namespace

void register_torch_memory(py::module_& module) {
  module.def("torch_known_memory_layout", &torch_known_memory_layout, py::arg("version"),
             "Return (size of a debug info kind in bytes, number of PROFILER_STATE if kinds are an "
             "enumeration) of a version; None for an unlisted version.");
  module.def("torch_memory_prepare", &torch_memory_prepare, py::arg("version"),
             py::arg("layout") = py::none(),
             "Test whether allocations of the loaded libtorch can be observed; return \"\" or the "
             "reason why not. Requires torch_prepare(). layout: the numbers found by "
             "fastprof.adapters.torch.layout, for an unlisted version.");
  module.def("torch_memory_start", &torch_adapter::start_reporting, py::call_guard<WithoutGil>(),
             "Record allocations from now on; return False if another profiler receives this "
             "thread's reports. Each call needs a torch_memory_stop().");
  module.def(
      "torch_try_memory",
      [](const py::typing::Callable<py::object()>& work) {
        return torch_adapter::try_reports([&work] { work(); });
      },
      py::arg("work"),
      "Call work() and return the changes of memory, in bytes, that libtorch reported on this "
      "thread meanwhile, which are not recorded; at most 16. Requires torch_memory_prepare().");
  module.def("torch_memory_hide_thread", &torch_adapter::hide_memory_of_this_thread,
             "Leave out what the calling thread allocates, for good.");
  module.def("torch_memory_stop", &torch_adapter::stop_reporting, py::call_guard<WithoutGil>());
  module.def(
      "torch_memory_withdraw", &torch_adapter::withdraw_reporter, py::call_guard<WithoutGil>(),
      "Yield this thread's memory reports to another profiler; return False if fastprof did "
      "not receive them. They resume with the first op after the other profiler has stopped.");
  module.def("torch_memory_after_fork_in_child", [] {
    torch_adapter::forget_reporters_in_child();
    torch_adapter::forget_propagation_in_child();
  });
  module.def(
      "torch_propagation_start", &torch_adapter::start_propagation, py::call_guard<WithoutGil>(),
      "Propagate this thread's thread-local sessions to the work that it hands to libtorch's "
      "threads from now on; return the id for torch_propagation_stop().");
  module.def("torch_propagation_stop", &torch_adapter::stop_propagation, py::arg("id"),
             py::call_guard<WithoutGil>());
  module.def(
      "torch_memory_self_test", &torch_memory_self_test, py::arg("forged") = 0,
      py::arg("layout") = Kinds{8, 0},
      "Run the self-test of memory reports; return \"\" if it passes, else the reason. forged: "
      "simulate 1 a different order of virtual functions, 2 different fields of a link.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
