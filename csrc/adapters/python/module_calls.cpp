// SPDX-License-Identifier: Apache-2.0
// The vectorcall function that replaces torch.nn.Module.__call__'s: see module_calls.hpp.
#include "adapters/python/module_calls.hpp"

#include <utility>
#include <vector>

#include "adapters/python/call_sites.hpp"
#include "adapters/python/gil_substitute.hpp"
#include "adapters/python/stack_in_use.hpp"
#include "adapters/python/thread_name.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/recorder/hot_path/range.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

GilSubstitute g_lock;
uint32_t g_profiles = 0;  // profiles that record calls of modules

// Functions whose vectorcall function was replaced; owned. More than one if
// torch.nn.Module.__call__ was another function when another profile began.
std::vector<PyObject*>& replaced() {
  static auto* only = new std::vector<PyObject*>;
  return *only;
}

struct ThreadModules {
  const char* path = nullptr;   // current_eager_modules()
  PyObject* entered = nullptr;  // module whose call is recorded and whose frame has not begun
};
thread_local ThreadModules t_modules;

PyFunctionObject* function_of(PyObject* object) noexcept {
  return reinterpret_cast<PyFunctionObject*>(object);
}

// Returns the interpreter's vectorcall function of Python functions: _PyFunction_Vectorcall(),
// which recent headers do not declare. Null without memory; sets no error.
vectorcallfunc find_ordinary_call() noexcept {
  auto* code = reinterpret_cast<PyObject*>(PyCode_NewEmpty("<fastprof>", "ordinary", 1));
  PyObject* globals = PyDict_New();
  PyObject* function =
      code == nullptr || globals == nullptr ? nullptr : PyFunction_New(code, globals);
  const vectorcallfunc call = function == nullptr ? nullptr : function_of(function)->vectorcall;
  PyErr_Clear();
  Py_XDECREF(function);
  Py_XDECREF(globals);
  Py_XDECREF(code);
  return call;
}

vectorcallfunc g_ordinary_call = nullptr;  // set before the first function is replaced

void set_vectorcall(PyObject* function, vectorcallfunc call) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  PyFunction_SetVectorcall(function_of(function), call);
#else
  function_of(function)->vectorcall = call;
#if PY_VERSION_HEX >= 0x030B0000
  // Clears the function's version: a specialised call instruction would otherwise bypass
  // vectorcall.
  function_of(function)->func_version = 0;
#endif
#endif
}

struct ModuleCall {
  OpenRange open;
  const Site* site;
};

// Begins the record of a call, and makes the module the innermost one of the thread.
ModuleCall begin_call(State* s, PyObject* module) noexcept {
  const StackInUse in_use;  // may run Python code, in which the last profile may end
  name_thread_once();
  NameUse use;
  if (!use.begin(s)) return {};
  const ModuleNames names = names_of_module(module, t_modules.path);
  if (names.site == nullptr) return {};
  t_modules.path = names.path;
  ThreadBlock* block = thread_block();
  // Without callbacks and perf counters, as for other calls.
  Slot* slot = reserve(s, block, 1, category::python_module);
  if (slot == nullptr) return {};
  const uint64_t begin = stamp_slot_any_clock(s, slot, 0, reinterpret_cast<uintptr_t>(names.site));
  return {{slot, begin_to_keep(s, begin, false)}, names.site};
}

// Called with (module, ...).
PyObject* call_module(PyObject* function, PyObject* const* args, size_t flags, PyObject* names) {
  State* s = state();
  PyObject* module = PyVectorcall_NARGS(flags) > 0 ? args[0] : nullptr;
  if (module == nullptr || !wanted(s, thread_block(), category::python_module))
    return g_ordinary_call(function, args, flags, names);
  const char* outer = t_modules.path;
  const ModuleCall call = begin_call(s, module);
  t_modules.entered = call.open.slot != nullptr ? module : nullptr;
  PyObject* result = g_ordinary_call(function, args, flags, names);
  t_modules.entered = nullptr;
  t_modules.path = outer;
  if (call.open.slot != nullptr) end_open(call.open, call.site);
  return result;
}

void put_all_back() noexcept {
  std::vector<PyObject*> functions;
  functions.swap(replaced());
  for (PyObject* function : functions) {
    // If another tool has replaced ours, it may still call it; ours then records nothing.
    if (function_of(function)->vectorcall == call_module) set_vectorcall(function, g_ordinary_call);
    Py_DECREF(function);
  }
}

}  // namespace

bool start_module_calls(PyObject* call) {
  if (!PyFunction_Check(call)) return false;
  const HoldGilSubstitute hold(g_lock);
  const vectorcallfunc current = function_of(call)->vectorcall;
  if (current != call_module) {
    if (g_ordinary_call == nullptr) g_ordinary_call = find_ordinary_call();
    if (current == nullptr || current != g_ordinary_call) return false;
    replaced().reserve(replaced().size() + 1);
    Py_INCREF(call);
    replaced().push_back(call);
    set_vectorcall(call, call_module);
  }
  use_module_names(true);
  ++g_profiles;
  return true;
}

void stop_module_calls() noexcept {
  const HoldGilSubstitute hold(g_lock);
  if (g_profiles == 0) return;
  use_module_names(false);
  if (--g_profiles == 0) put_all_back();
}

void forget_module_calls_in_child() noexcept {
  for (; g_profiles != 0; --g_profiles) use_module_names(false);
  t_modules = ThreadModules{};
  put_all_back();
}

bool is_recorded_module_call(PyObject* module) noexcept {
  if (module == nullptr || t_modules.entered != module) return false;
  t_modules.entered = nullptr;
  return true;
}

const char* current_eager_modules() noexcept {
  return t_modules.path;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
