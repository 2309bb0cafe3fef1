// SPDX-License-Identifier: Apache-2.0
// The functions that replace __enter__ of locks: see lock_entries.hpp.
#include "adapters/python/lock_entries.hpp"

#include "adapters/python/call_tracer.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)

namespace {

struct LockEntry {
  const char* type;
  PyCFunction hook;
  PyMethodDef* method;  // null: not found
  PyCFunction call;     // what `method` had
};

template <size_t which>
PyObject* hooked_enter(PyObject* self, PyObject* args, PyObject* kwargs);

template <size_t which>
PyCFunction hook() noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&hooked_enter<which>));
}

LockEntry g_entries[] = {{"LockType", hook<0>(), nullptr, nullptr},
                         {"RLock", hook<1>(), nullptr, nullptr}};
bool g_hooked = false;

template <size_t which>
PyObject* hooked_enter(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyMethodDef* method = g_entries[which].method;
  const auto call = reinterpret_cast<PyCFunctionWithKeywords>(
      reinterpret_cast<void (*)()>(g_entries[which].call));
  CallStack* calls = stack_of_this_thread();
  const bool reported = calls != nullptr && !calls->empty() && calls->innermost().key == method;
  if (calls == nullptr || reported) return call(self, args, kwargs);
  begin_c_call(*calls, method, innermost_instruction, [self, method] {
    return CFunction{method, self, nullptr};
  });
  PyObject* result = call(self, args, kwargs);
  // Another thread may have ended the tracing during the wait.
  calls = stack_of_this_thread();
  if (calls != nullptr) calls->end(method);
  return result;
}

PyMethodDef* find_method(const char* type_name) noexcept {
  PyObject* module = PyImport_ImportModule("_thread");
  PyObject* type = module == nullptr ? nullptr : PyObject_GetAttrString(module, type_name);
  PyObject* enter = type == nullptr ? nullptr : PyObject_GetAttrString(type, "__enter__");
  PyMethodDef* method = nullptr;
  if (enter != nullptr && Py_IS_TYPE(enter, &PyMethodDescr_Type))
    method = reinterpret_cast<PyMethodDescrObject*>(enter)->d_method;
  PyErr_Clear();
  Py_XDECREF(enter);
  Py_XDECREF(type);
  Py_XDECREF(module);
  return method != nullptr && method->ml_flags == (METH_VARARGS | METH_KEYWORDS) ? method : nullptr;
}

}  // namespace

void record_lock_entries(bool on) noexcept {
  if (on == g_hooked) return;
  g_hooked = on;
  for (LockEntry& entry : g_entries) {
    if (entry.method == nullptr) {
      entry.method = find_method(entry.type);
      if (entry.method == nullptr) continue;
      entry.call = entry.method->ml_meth;
    }
    __atomic_store_n(&entry.method->ml_meth, on ? entry.hook : entry.call, __ATOMIC_RELEASE);
  }
}

#else

void record_lock_entries(bool) noexcept {}

#endif

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
