// SPDX-License-Identifier: Apache-2.0
// Defines fastprof._core by its parts. A new part needs a register_*.cpp and its name in
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
#define FASTPROF_REGISTER_PART(part) fastprof::bindings::register_##part(module);
  FASTPROF_PARTS(FASTPROF_REGISTER_PART)
#undef FASTPROF_REGISTER_PART
}

#undef PyInit__core

extern "C" PYBIND11_EXPORT PyObject* PyInit__core();
PyObject* PyInit__core() {
  if (in_main_interpreter()) return fastprof_init_core();
  PyErr_SetString(PyExc_ImportError, kNoSubinterpreters);
  return nullptr;
}
