// SPDX-License-Identifier: Apache-2.0
// Defines fastprof._core by its parts. A new part needs a register_*.cpp, a line here and one in
// register.hpp.
#include "bindings/register.hpp"

namespace {

// The recorder exists once per process, and both it and pybind11's initialisation take the GIL of
// the main interpreter (PyGILState_Ensure). In a subinterpreter this deadlocks.
constexpr const char* kNoSubinterpreters =
    "fastprof records the whole process and cannot be loaded in a subinterpreter: import it in the "
    "main interpreter only";

bool in_main_interpreter() noexcept {
  return PyInterpreterState_Get() == PyInterpreterState_Main();
}

}  // namespace

// Renames pybind11's PyInit__core, which the one below calls after checking the interpreter.
#define PyInit__core fastprof_init_core

// The recorder is thread-safe by itself, so the module does not need the GIL in free-threaded
// builds.
#if PYBIND11_VERSION_MAJOR >= 3
PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used(),
                pybind11::multiple_interpreters::not_supported()) {
#else
PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
#endif
  // Newer interpreters call PyInit__core in the main interpreter, and in others only this function.
  if (!in_main_interpreter()) throw pybind11::import_error(kNoSubinterpreters);
  module.doc() = "The native part of fastprof. Private: use the names that `fastprof` exports.";
  fastprof::bindings::register_errors(module);  // first, because the others may throw
  fastprof::bindings::register_version(module);
  fastprof::bindings::register_ranges(module);
  fastprof::bindings::register_device_plugins(module);  // sessions take the activities of its sinks
  fastprof::bindings::register_devices(module);  // sessions take the activities of its collections
  fastprof::bindings::register_session(module);
  fastprof::bindings::register_recover(module);
  fastprof::bindings::register_process(module);
  fastprof::bindings::register_late_signal(module);
  fastprof::bindings::register_objects(module);
  fastprof::bindings::register_blocks(module);  // adds methods to Capture
  fastprof::bindings::register_table_capture(module);
  fastprof::bindings::register_table_kernels(module);
  fastprof::bindings::register_sqlite_pages(module);
  fastprof::bindings::register_trace_rows(module);
  fastprof::bindings::register_trace_proto(module);
  fastprof::bindings::register_propagate(module);
  fastprof::bindings::register_python_calls(module);
  fastprof::bindings::register_python_memory(module);
  fastprof::bindings::register_sampling(module);
  fastprof::bindings::register_tasks(module);
  fastprof::bindings::register_legacy(module);
  fastprof::bindings::register_emission(module);
  fastprof::bindings::register_metal(module);
  fastprof::bindings::register_torch(module);
  fastprof::bindings::register_torch_memory(module);
  fastprof::bindings::register_torch_holds(module);
}

#undef PyInit__core

extern "C" PYBIND11_EXPORT PyObject* PyInit__core();
PyObject* PyInit__core() {
  if (in_main_interpreter()) return fastprof_init_core();
  PyErr_SetString(PyExc_ImportError, kNoSubinterpreters);
  return nullptr;
}
