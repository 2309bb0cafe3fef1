// SPDX-License-Identifier: Apache-2.0
// _core.Torch*Hold: what a profile switches on in libtorch, each owned by one Python object, so
// that a KeyboardInterrupt between two lines of Python can neither leave it on nor end it twice.
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>

#include "adapters/torch/memory_reporter.hpp"
#include "adapters/torch/module_hierarchy.hpp"
#include "adapters/torch/op_observer.hpp"
#include "adapters/torch/session_travel.hpp"
#include "bindings/register.hpp"
#include "bindings/torch_fast_ranges.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// Of this process since its first fork. A child ends nothing that its parent began: the adapters
// forget it there (torch_after_fork_in_child). Written with the GIL held.
uint64_t g_forks = 0;

// Whether something is on. GIL held, or one thread at a time.
class Hold {
 public:
  bool active() const noexcept { return on_ && forks_ == g_forks; }
  void set() noexcept {
    on_ = true;
    forks_ = g_forks;
  }
  // True once for each set() in this process.
  bool clear() noexcept { return std::exchange(on_, false) && forks_ == g_forks; }

 private:
  bool on_ = false;
  uint64_t forks_ = 0;
};

class OpsHold {
 public:
  OpsHold() = default;
  OpsHold(const OpsHold&) = delete;
  OpsHold& operator=(const OpsHold&) = delete;
  ~OpsHold() { end(); }
  void begin(bool inputs) {
    if (hold_.active()) return;
    const py::gil_scoped_release release;
    torch_adapter::start_observing(inputs);
    inputs_ = inputs;
    hold_.set();
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const py::gil_scoped_release release;
    torch_adapter::stop_observing(inputs_);
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_;
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
    const py::gil_scoped_release release;
    const bool mine = torch_adapter::start_reporting();
    hold_.set();
    return mine;
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const py::gil_scoped_release release;
    torch_adapter::stop_reporting();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_;
};

class ModulesHold {
 public:
  ModulesHold() = default;
  ModulesHold(const ModulesHold&) = delete;
  ModulesHold& operator=(const ModulesHold&) = delete;
  ~ModulesHold() { end(); }
  std::string begin() {
    if (hold_.active()) return {};
    const py::gil_scoped_release release;
    std::string reason = torch_adapter::start_module_hierarchy();
    if (reason.empty()) hold_.set();
    return reason;
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const py::gil_scoped_release release;
    torch_adapter::stop_module_hierarchy();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_;
};

class TravelHold {
 public:
  TravelHold() = default;
  TravelHold(const TravelHold&) = delete;
  TravelHold& operator=(const TravelHold&) = delete;
  ~TravelHold() { end(); }
  bool begin() {
    if (hold_.active()) return true;
    const py::gil_scoped_release release;
    travel_ = torch_adapter::start_travel();
    if (travel_ != 0) hold_.set();
    return travel_ != 0;
  }
  void end() noexcept {
    if (!hold_.clear()) return;
    const py::gil_scoped_release release;
    torch_adapter::stop_travel(travel_);
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  Hold hold_;
  uint64_t travel_ = 0;
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
  Hold hold_;
};

template <class Class>
py::class_<Class> define(py::module_& module, const char* name, const char* text) {
  return py::class_<Class>(module, name, text)
      .def(py::init<>())
      .def("end", &Class::end, "End it if it is on. Its destructor does, too.")
      .def_property_readonly("active", &Class::active);
}

}  // namespace

void forget_torch_holds_in_child() noexcept {
  ++g_forks;
}

void register_torch_holds(py::module_& module) {
  define<OpsHold>(module, "TorchOpsHold", "Ops are recorded from begin() to end().")
      .def("begin", &OpsHold::begin, py::arg("inputs") = false,
           "inputs: with their inputs. After torch_prepare(), and for inputs torch_trust_inputs(), "
           "have succeeded; else StateError.");
  define<MemoryHold>(module, "TorchMemoryHold", "Allocations are recorded from begin() to end().")
      .def("begin", &MemoryHold::begin,
           "False: another profiler has this thread's reports. After torch_memory_prepare() has "
           "succeeded, else StateError.");
  define<ModulesHold>(module, "TorchModulesHold",
                      "Ops have the TorchScript modules that they run in from begin() to end().")
      .def("begin", &ModulesHold::begin, "Empty, or the reason why not.");
  define<TravelHold>(module, "TorchTravelHold",
                     "From begin() to end(), work that the thread of begin() gives to libtorch's "
                     "threads belongs to the thread-local sessions that this thread belongs to.")
      .def("begin", &TravelHold::begin,
           "False if this thread belongs to no such session. After torch_memory_prepare() has "
           "succeeded, else StateError.");
  define<FastRangesHold>(
      module, "TorchFastRangesHold",
      "Ranges of torch's _RecordFunctionFast are recorded from begin() to end().")
      .def("begin", &FastRangesHold::begin, py::arg("type"),
           "type: torch._C._profiler._RecordFunctionFast. Empty, or the reason why not.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
