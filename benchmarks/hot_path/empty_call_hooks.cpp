// SPDX-License-Identifier: Apache-2.0
// Lower bounds for tracing Python calls, for python_calls.py: hooks in C that do nothing, and hooks
// that only store the tick counter, which every tracer with times must do. On CPython <= 3.11, a
// profile function; on later versions, callbacks of sys.monitoring for the events of a call, as
// objects with a vectorcall function, the cheapest form of a callback.
#include <Python.h>

#include <cstddef>
#include <cstdint>

namespace {

uint64_t g_ticks[4096];
size_t g_next = 0;

void store_ticks() {
#if defined(__x86_64__)
  g_ticks[g_next++ % 4096] = __builtin_ia32_rdtsc();
#else
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  g_ticks[g_next++ % 4096] = ticks;
#endif
}

#if PY_VERSION_HEX < 0x030C0000

int nothing(PyObject*, PyFrameObject*, int, PyObject*) {
  return 0;
}

int clock_only(PyObject*, PyFrameObject*, int, PyObject*) {
  store_ticks();
  return 0;
}

PyObject* begin(PyObject*, PyObject*) {
  PyEval_SetProfile(nothing, nullptr);
  Py_RETURN_NONE;
}

PyObject* begin_clock(PyObject*, PyObject*) {
  PyEval_SetProfile(clock_only, nullptr);
  Py_RETURN_NONE;
}

PyObject* end(PyObject*, PyObject*) {
  PyEval_SetProfile(nullptr, nullptr);
  Py_RETURN_NONE;
}

#else

constexpr const char* kEvents[] = {"PY_START",  "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD",
                                   "PY_UNWIND", "CALL",      "C_RETURN", "C_RAISE"};

struct Callback {
  PyObject_HEAD vectorcallfunc call;
};

PyObject* nothing(PyObject*, PyObject* const*, size_t, PyObject*) {
  Py_RETURN_NONE;
}

PyObject* clock_only(PyObject*, PyObject* const*, size_t, PyObject*) {
  store_ticks();
  Py_RETURN_NONE;
}

PyObject* make_callback(vectorcallfunc call) {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Callback, call), Py_READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_members, members},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {0, nullptr}};
  static PyType_Spec spec = {"empty_call_hooks.Callback", sizeof(Callback), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  auto* callback = PyObject_New(Callback, reinterpret_cast<PyTypeObject*>(type));
  callback->call = call;
  return reinterpret_cast<PyObject*>(callback);
}

// Calls sys.monitoring.NAME(...). Returns false with an error set.
template <class... Arguments>
bool monitoring(const char* name, const char* format, Arguments... arguments) {
  PyObject* module = PySys_GetObject("monitoring");
  PyObject* result = PyObject_CallMethod(module, name, format, arguments...);
  Py_XDECREF(result);
  return result != nullptr;
}

// call: the callback; null to remove the hooks.
PyObject* switch_events(vectorcallfunc call) {
  const bool on = call != nullptr;
  PyObject* events = PyObject_GetAttrString(PySys_GetObject("monitoring"), "events");
  if (on && !monitoring("use_tool_id", "is", 5, "empty hooks")) return nullptr;
  long all = 0;
  for (const char* name : kEvents) {
    PyObject* event = PyObject_GetAttrString(events, name);
    PyObject* callback = on ? make_callback(call) : Py_NewRef(Py_None);
    monitoring("register_callback", "iOO", 5, event, callback);
    all |= PyLong_AsLong(event);
    Py_DECREF(callback);
    Py_DECREF(event);
  }
  Py_DECREF(events);
  monitoring("set_events", "il", 5, on ? all : 0L);
  if (!on) monitoring("free_tool_id", "i", 5);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* begin(PyObject*, PyObject*) {
  return switch_events(nothing);
}
PyObject* begin_clock(PyObject*, PyObject*) {
  return switch_events(clock_only);
}
PyObject* end(PyObject*, PyObject*) {
  return switch_events(nullptr);
}

#endif

PyMethodDef methods[] = {
    {"begin", begin, METH_NOARGS, "Install hooks that do nothing."},
    {"begin_clock", begin_clock, METH_NOARGS, "Install hooks that store the tick counter."},
    {"end", end, METH_NOARGS, "Remove them."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "empty_call_hooks",
                      nullptr,
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_empty_call_hooks() {
  return PyModule_Create(&module);
}
