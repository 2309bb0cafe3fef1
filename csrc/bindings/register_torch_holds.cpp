// SPDX-License-Identifier: Apache-2.0
// _core.Torch*Hold: each feature that a profile enables in libtorch is owned by one Python object
// (hold.hpp).
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "adapters/python/gil.hpp"
#include "adapters/python/module_calls.hpp"
#include "adapters/torch/debug_info/memory_reporter.hpp"
#include "adapters/torch/ops/module_hierarchy.hpp"
#include "adapters/torch/ops/op_observer.hpp"
#include "adapters/torch/ops/torch_propagation.hpp"
#include "bindings/hold.hpp"
#include "bindings/register.hpp"
#include "bindings/torch_fast_ranges.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

// Number of forks in this process's ancestry. A child does not disable what its parent enabled; the
// adapters reset that in torch_after_fork_in_child. Written with the GIL held.
uint64_t g_torch_forks = 0;

// What a hold enables. start() returns what begin() does, and sets the hold if there is something
// to stop.
struct Ops {
  bool start(Hold& hold, bool with_inputs) {
    const WithoutGil release;
    torch_adapter::start_observing(with_inputs);
    inputs = with_inputs;
    hold.set();
    return true;
  }
  void stop() noexcept {
    const WithoutGil release;
    torch_adapter::stop_observing(inputs);
  }
  bool inputs = false;
};

struct Memory {
  bool start(Hold& hold) {
    const WithoutGil release;
    const bool mine = torch_adapter::start_reporting();
    hold.set();
    return mine;
  }
  void stop() noexcept {
    const WithoutGil release;
    torch_adapter::stop_reporting();
  }
};

struct Modules {
  std::string start(Hold& hold) {
    const WithoutGil release;
    std::string reason = torch_adapter::start_module_hierarchy();
    hold.set();
    return reason;
  }
  void stop() noexcept {
    const WithoutGil release;
    torch_adapter::stop_module_hierarchy();
  }
};

struct ModuleCalls {
  bool start(Hold& hold, const py::object& call) {
    store_relaxed(&torch_adapter::g_eager_modules, &python_adapter::current_eager_modules);
    if (!python_adapter::start_module_calls(call.ptr())) return false;
    hold.set();
    return true;
  }
  void stop() noexcept { python_adapter::stop_module_calls(); }
};

struct Propagation {
  bool start(Hold& hold) {
    const WithoutGil release;
    id = torch_adapter::start_propagation();
    if (id != 0) hold.set();
    return id != 0;
  }
  void stop() noexcept {
    const WithoutGil release;
    torch_adapter::stop_propagation(id);
  }
  uint64_t id = 0;
};

struct FastRangesHold {
  std::string start(Hold& hold, const py::object& type) {
    std::string reason = observe_fast_ranges(type.ptr());
    if (reason.empty()) hold.set();
    return reason;
  }
  void stop() { release_fast_ranges(); }  // may raise
};

// Enables a feature from begin() to end().
template <class Feature>
class FeatureHold {
 public:
  FeatureHold() = default;
  FeatureHold(const FeatureHold&) = delete;
  FeatureHold& operator=(const FeatureHold&) = delete;
  ~FeatureHold() {
    try {
      end();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the end of a feature of torch");
    }
  }
  template <class... Arguments>
  auto begin(Arguments... arguments) {
    using Result = decltype(feature_.start(hold_, arguments...));
    if (!hold_.active()) return feature_.start(hold_, arguments...);
    if constexpr (std::is_same<Result, bool>::value)
      return true;
    else
      return Result{};
  }
  void end() {
    if (hold_.clear()) feature_.stop();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_torch_forks};
  Feature feature_;
};

template <class Feature>
py::class_<FeatureHold<Feature>> define(py::module_& module, const char* name, const char* text) {
  using Class = FeatureHold<Feature>;
  return py::class_<Class>(module, name, text)
      .def(py::init<>())
      .def("end", &Class::end, "Undo begin(), if it is in effect. The destructor calls it.")
      .def_property_readonly("active", &Class::active);
}

}  // namespace

void forget_torch_holds_in_child() noexcept {
  ++g_torch_forks;
}

void register_torch_holds(py::module_& module) {
  define<Ops>(module, "TorchOpsHold", "Records ops from begin() to end().")
      .def(
          "begin", [](FeatureHold<Ops>& self, bool inputs) { self.begin(inputs); },
          py::arg("inputs") = false,
          "Begin; inputs: record inputs, too. Raises StateError unless torch_prepare(), and for "
          "inputs torch_adopt_input_layout(), have succeeded.");
  define<Memory>(module, "TorchMemoryHold", "Records allocations from begin() to end().")
      .def("begin", &FeatureHold<Memory>::begin<>,
           "Begin; return False if another profiler receives this thread's reports. Raises "
           "StateError unless torch_memory_prepare() has succeeded.");
  define<Modules>(module, "TorchModulesHold", "Records the modules of ops from begin() to end().")
      .def("begin", &FeatureHold<Modules>::begin<>,
           "Begin; return \"\" or the reason why modules of TorchScript are not recorded.");
  define<ModuleCalls>(module, "ModuleCallsHold",
                      "Records the calls of torch.nn.Module objects from begin() to end().")
      .def("begin", &FeatureHold<ModuleCalls>::begin<py::object>, py::arg("call"),
           "Begin; return False if `call`, which is torch.nn.Module.__call__, is not a function "
           "written in Python, or is called through another tool's function.");
  define<Propagation>(module, "TorchPropagationHold",
                      "From begin() to end(), propagates the thread-local sessions of the thread "
                      "that called begin() to the work that it hands to libtorch's threads.")
      .def("begin", &FeatureHold<Propagation>::begin<>,
           "Begin; return False if this thread belongs to no thread-local session. Raises "
           "StateError unless torch_memory_prepare() has succeeded.");
  define<FastRangesHold>(module, "TorchFastRangesHold",
                         "Records ranges of torch's _RecordFunctionFast from begin() to end().")
      .def("begin", &FeatureHold<FastRangesHold>::begin<py::object>, py::arg("type"),
           "Begin; return \"\" or the reason why not. type: "
           "torch._C._profiler._RecordFunctionFast.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
