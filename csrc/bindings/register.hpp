// SPDX-License-Identifier: Apache-2.0
// Declares one function per part of fastprof._core, defined in the .cpp of the same name.
#pragma once

#include <pybind11/pybind11.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

void register_blocks(pybind11::module_& module);
void register_devices(pybind11::module_& module);
void register_device_plugins(pybind11::module_& module);
void register_emission(pybind11::module_& module);
void register_errors(pybind11::module_& module);
void register_late_signal(pybind11::module_& module);
void register_objects(pybind11::module_& module);
void register_legacy(pybind11::module_& module);
void register_metal(pybind11::module_& module);
void register_propagate(pybind11::module_& module);
void register_python_calls(pybind11::module_& module);
void register_process(pybind11::module_& module);
void register_python_memory(pybind11::module_& module);
void register_ranges(pybind11::module_& module);
void register_recover(pybind11::module_& module);
void register_sampling(pybind11::module_& module);
void register_session(pybind11::module_& module);
void register_tasks(pybind11::module_& module);
void register_torch(pybind11::module_& module);
void register_torch_holds(pybind11::module_& module);
void register_torch_memory(pybind11::module_& module);
void register_table_capture(pybind11::module_& module);
void register_table_kernels(pybind11::module_& module);
void register_sqlite_pages(pybind11::module_& module);
void register_trace_proto(pybind11::module_& module);  // after register_trace_rows
void register_trace_rows(pybind11::module_& module);
void register_version(pybind11::module_& module);

// Call in a forked child, before it uses any hold.
void forget_torch_holds_in_child() noexcept;

}  // namespace bindings
FASTPROF_NAMESPACE_END
