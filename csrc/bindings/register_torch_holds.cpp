// SPDX-License-Identifier: Apache-2.0
// _core.Torch*Hold: each feature that a profile enables in libtorch is owned by one Python object
// (hold.hpp).
#include <pybind11/stl.h>

#include <cstdint>
#include <string>

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
uint64_t g_forks = 0;

class OpsHold {
 public:
  OpsHold() = default;
  OpsHold(const OpsHold&) = delete;
  OpsHold& operator=(const OpsHold&) = delete;
  ~OpsHold() { end(); }
  void begin(bool inputs) {
    if (hold_.active()) return;
    const WithoutGil release;
    torch_adapter::start_observing(inputs);
    inputs_ = inputs;
    hold_.set();
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const WithoutGil release;
    torch_adapter::stop_observing(inputs_);
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_forks};
  bool inputs_ = false;
};

class MemoryHold {
 public:
  MemoryHold() = default;
  MemoryHold(const MemoryHold&) = delete;
  MemoryHold& operator=(const MemoryHold&) = delete;
  ~MemoryHold() { end(); }
  bool begin() {
    if (hold_.active()) return true;
    const WithoutGil release;
    const bool mine = torch_adapter::start_reporting();
    hold_.set();
    return mine;
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const WithoutGil release;
    torch_adapter::stop_reporting();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_forks};
};

class ModulesHold {
 public:
  ModulesHold() = default;
  ModulesHold(const ModulesHold&) = delete;
  ModulesHold& operator=(const ModulesHold&) = delete;
  ~ModulesHold() { end(); }
  std::string begin() {
    if (hold_.active()) return {};
    const WithoutGil release;
    std::string reason = torch_adapter::start_module_hierarchy();
    hold_.set();
    return reason;
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const WithoutGil release;
    torch_adapter::stop_module_hierarchy();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_forks};
};

class ModuleCallsHold {
 public:
  ModuleCallsHold() = default;
  ModuleCallsHold(const ModuleCallsHold&) = delete;
  ModuleCallsHold& operator=(const ModuleCallsHold&) = delete;
  ~ModuleCallsHold() { end(); }
  bool begin(const py::object& call) {
    if (hold_.active()) return true;
    store_relaxed(&torch_adapter::g_eager_modules, &python_adapter::current_eager_modules);
    if (!python_adapter::start_module_calls(call.ptr())) return false;
    hold_.set();
    return true;
  }
  void end() noexcept {
    if (hold_.clear()) python_adapter::stop_module_calls();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_forks};
};

class PropagationHold {
 public:
  PropagationHold() = default;
  PropagationHold(const PropagationHold&) = delete;
  PropagationHold& operator=(const PropagationHold&) = delete;
  ~PropagationHold() { end(); }
  bool begin() {
    if (hold_.active()) return true;
    const WithoutGil release;
    propagation_ = torch_adapter::start_propagation();
    if (propagation_ != 0) hold_.set();
    return propagation_ != 0;
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const WithoutGil release;
    torch_adapter::stop_propagation(propagation_);
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_forks};
  uint64_t propagation_ = 0;
};

class FastRangesHold {
 public:
  FastRangesHold() = default;
  FastRangesHold(const FastRangesHold&) = delete;
  FastRangesHold& operator=(const FastRangesHold&) = delete;
  ~FastRangesHold() {
    try {
      end();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the end of observing _RecordFunctionFast");
    }
  }
  std::string begin(const py::object& type) {
    if (hold_.active()) return {};
    std::string reason = observe_fast_ranges(type.ptr());
    if (reason.empty()) hold_.set();
    return reason;
  }
  void end() {
    if (hold_.clear()) release_fast_ranges();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_{g_forks};
};

template <class Class>
py::class_<Class> define(py::module_& module, const char* name, const char* text) {
  return py::class_<Class>(module, name, text)
      .def(py::init<>())
      .def("end", &Class::end, "Undo begin(), if it is in effect. The destructor calls it.")
      .def_property_readonly("active", &Class::active);
}

}  // namespace

void forget_torch_holds_in_child() noexcept {
  ++g_forks;
}

void register_torch_holds(py::module_& module) {
  define<OpsHold>(module, "TorchOpsHold", "Records ops from begin() to end().")
      .def("begin", &OpsHold::begin, py::arg("inputs") = false,
           "Begin; inputs: record inputs, too. Raises StateError unless torch_prepare(), and for "
           "inputs torch_adopt_input_layout(), have succeeded.");
  define<MemoryHold>(module, "TorchMemoryHold", "Records allocations from begin() to end().")
      .def("begin", &MemoryHold::begin,
           "Begin; return False if another profiler receives this thread's reports. Raises "
           "StateError unless torch_memory_prepare() has succeeded.");
  define<ModulesHold>(module, "TorchModulesHold",
                      "Records the modules of ops from begin() to end().")
      .def("begin", &ModulesHold::begin,
           "Begin; return \"\" or the reason why modules of TorchScript are not recorded.");
  define<ModuleCallsHold>(module, "ModuleCallsHold",
                          "Records the calls of torch.nn.Module objects from begin() to end().")
      .def("begin", &ModuleCallsHold::begin, py::arg("call"),
           "Begin; return False if `call`, which is torch.nn.Module.__call__, is not a function "
           "written in Python, or is called through another tool's function.");
  define<PropagationHold>(
      module, "TorchPropagationHold",
      "From begin() to end(), propagates the thread-local sessions of the thread "
      "that called begin() to the work that it hands to libtorch's threads.")
      .def("begin", &PropagationHold::begin,
           "Begin; return False if this thread belongs to no thread-local session. Raises "
           "StateError unless torch_memory_prepare() has succeeded.");
  define<FastRangesHold>(module, "TorchFastRangesHold",
                         "Records ranges of torch's _RecordFunctionFast from begin() to end().")
      .def("begin", &FastRangesHold::begin, py::arg("type"),
           "Begin; return \"\" or the reason why not. type: "
           "torch._C._profiler._RecordFunctionFast.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
