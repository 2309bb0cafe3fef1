// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/running_loops.hpp"

#include <cstdint>

#include "adapters/python/interpreter.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

size_t g_offset = kAbsent;  // in a thread state; guarded by the GIL

}  // namespace

bool learn_running_loops(PyObject* marker) noexcept {
#if PY_VERSION_HEX >= 0x030E0000 && !defined(Py_GIL_DISABLED)
  constexpr size_t kBehindBytes = 1024;  // the loop follows the public part of a thread state
  if (g_offset != kAbsent) return true;
  const Interpreter own = own_interpreter();
  const auto state = reinterpret_cast<uintptr_t>(PyThreadState_Get());
  size_t found = kAbsent;
  for (size_t at = 0; at < sizeof(PyThreadState) + kBehindBytes; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    if (!own.copy(state + at, &word, sizeof word)) break;
    if (word != reinterpret_cast<uintptr_t>(marker)) continue;
    if (found != kAbsent) return false;
    found = at;
  }
  g_offset = found;
#else
  (void)marker;
#endif
  return g_offset != kAbsent;
}

std::vector<PyObject*> running_loops() {
  std::vector<PyObject*> found;
  if (g_offset == kAbsent) return found;
  PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  for (; thread != nullptr; thread = PyThreadState_Next(thread)) {
    // The thread owns a reference, and changes it only with the GIL.
    PyObject* const loop =
        *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(thread) + g_offset);
    if (loop == nullptr) continue;
    found.push_back(loop);
    Py_INCREF(loop);
  }
  return found;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
