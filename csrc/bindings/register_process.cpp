// SPDX-License-Identifier: Apache-2.0
// What the operating system says of processes and folders, in the form that fastprof/platform has
// for it: for the following of child processes.
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/register.hpp"
#include "fastprof/platform/files.hpp"
#include "fastprof/platform/process.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

void register_process(py::module_& module) {
  module.def(
      "process_start",
      [](int pid) {
        const uint64_t start = platform::process_start(pid);
        return start != 0 ? std::optional(start) : std::nullopt;
      },
      py::arg("pid"),
      "Return when a process started, in 1/100 s of an epoch of the system's; None if it has ended "
      "or is a zombie. Any thread.");
  module.def(
      "folder_in_memory",
      [] {
        const char* folder = platform::folder_in_memory();
        return folder != nullptr ? std::optional<std::string>(folder) : std::nullopt;
      },
      "Return the folder whose files lie in memory; None if there is none. Any thread.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
