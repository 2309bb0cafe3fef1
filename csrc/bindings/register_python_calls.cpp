// SPDX-License-Identifier: Apache-2.0
// _core.PythonCalls: one profile's tracing of Python calls.
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "adapters/python/call_counts.hpp"
#include "adapters/python/call_tracer.hpp"
#include "adapters/python/module_calls.hpp"
#include "bindings/hold.hpp"
#include "bindings/register.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::CallFilter;

uint64_t g_call_forks = 0;  // in this process's ancestry

class PythonCalls {
 public:
  PythonCalls(std::vector<std::string> files, std::vector<std::string> excluded_files,
              std::vector<std::string> modules, std::vector<std::string> excluded_modules,
              bool c_calls, uint32_t max_depth, bool sum_frequent, std::string own_folder,
              std::string library_folder)
      : filter_{std::move(files),
                std::move(excluded_files),
                std::move(modules),
                std::move(excluded_modules),
                c_calls,
                max_depth,
                sum_frequent},
        folders_{std::move(own_folder), std::move(library_folder)} {}
  PythonCalls(const PythonCalls&) = delete;
  PythonCalls& operator=(const PythonCalls&) = delete;
  ~PythonCalls() { end(); }

  std::pair<std::string, std::string> begin() {
    if (hold_.active()) return {};
    const python_adapter::TracingProblems problems =
        python_adapter::start_tracing(filter_, folders_);
    hold_.set();
    since_ns_ = platform::monotonic_ns();
    return {problems.not_traced, problems.filter};
  }
  std::string end() noexcept {
    return hold_.clear() ? python_adapter::stop_tracing(since_ns_) : std::string();
  }
  bool active() const noexcept { return hold_.active(); }

 private:
  CallFilter filter_;
  python_adapter::CodeFolders folders_;
  Hold hold_{g_call_forks};
  int64_t since_ns_ = 0;  // CLOCK_MONOTONIC
};

}  // namespace

void register_python_calls(py::module_& module) {
  py::class_<PythonCalls>(module, "PythonCalls", "One profile's tracing of Python calls.")
      .def(py::init<std::vector<std::string>, std::vector<std::string>, std::vector<std::string>,
                    std::vector<std::string>, bool, uint32_t, bool, std::string, std::string>(),
           py::kw_only(), py::arg("files") = std::vector<std::string>(),
           py::arg("excluded_files") = std::vector<std::string>(),
           py::arg("modules") = std::vector<std::string>(),
           py::arg("excluded_modules") = std::vector<std::string>(), py::arg("c_calls") = true,
           py::arg("max_depth") = UINT32_MAX, py::arg("sum_frequent") = false,
           py::arg("own_folder") = "", py::arg("library_folder") = "")
      .def(
          "begin", &PythonCalls::begin,
          "Trace the calls of all threads while a session records them. Return the owners of other "
          "profile functions, and why other filters apply; empty texts for "
          "neither.")
      .def("end", &PythonCalls::end,
           "Stop tracing, if it is on; return when other profile functions were in the place of "
           "ours, and on which threads. The destructor does, too.")
      .def_property_readonly("active", &PythonCalls::active);
  module.def("hide_calls_of_thread", &python_adapter::hide_calls_of_this_thread,
             "Leave out the calls of the calling thread, which has recorded none, for good.");
  module.def("summed_calls", &python_adapter::summed_calls,
             "Return (name, number of calls) of the functions whose calls were counted instead of "
             "recorded. Only while the session runs.");
  module.def(
      "call_at_return",
      [](const py::object& code, const py::object& function) {
        return python_adapter::call_at_return(code.ptr(), function.ptr());
      },
      py::arg("code"), py::arg("function"),
      "Call a function without arguments on this thread when the innermost call of a code object "
      "has returned, or the tracing ends. False if the profile function is not the tracer's.");
  module.def(
      "look_for_modules", &python_adapter::look_for_modules,
      "Name calls of torch.nn.Module objects after the modules from now on, if torch was imported "
      "since the tracing began. No effect while no calls are traced.");
  module.def(
      "forget_python_calls_in_child",
      [] {
        ++g_call_forks;
        python_adapter::forget_tracing_in_child();
        python_adapter::forget_module_calls_in_child();
      },
      "Forget the parent's tracing of calls in a forked child.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
