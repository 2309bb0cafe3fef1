// SPDX-License-Identifier: Apache-2.0
// Naming threads: see thread_name.hpp.
#include "adapters/python/thread_name.hpp"

#include <Python.h>

#include <string>
#include <string_view>

#include "adapters/python/name_bytes.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/store/track_of_thread.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

namespace {

// The Thread object with this identifier; new reference, or null, maybe with an error set. Reads
// threading._active, because current_thread() would register a foreign thread; and callers read
// _name, because the property `name` is a Python function, during which the GIL may change hands.
PyObject* thread_object(unsigned long identifier) noexcept {
  PyObject* key = PyUnicode_FromString("threading");
  PyObject* module = key == nullptr ? nullptr : PyImport_GetModule(key);
  PyObject* active = module == nullptr ? nullptr : PyObject_GetAttrString(module, "_active");
  PyObject* ident = active == nullptr ? nullptr : PyLong_FromUnsignedLong(identifier);
  PyObject* thread = ident == nullptr ? nullptr : PyObject_GetItem(active, ident);
  for (PyObject* object : {key, module, active, ident}) Py_XDECREF(object);
  return thread;
}

}  // namespace

void mark_thread_named() noexcept {
  static const char named = 0;
  if (Track* track = current_track()) track->extension = const_cast<char*>(&named);
}

bool name_thread() noexcept {
  Track* track = current_track();
  if (track == nullptr) return false;
  if (track->extension != nullptr) return true;
  std::string storage;
  std::string_view bytes;
  PyObject* thread = thread_object(PyThread_get_thread_ident());
  PyObject* name = thread == nullptr ? nullptr : PyObject_GetAttrString(thread, "_name");
  const bool named = name != nullptr && name_bytes(name, storage, bytes);
  if (named) {
    set_thread_name(bytes);
    mark_thread_named();
  }
  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(thread);
  return named;
}

uint32_t track_of(PyThreadState* state_of_thread) noexcept {
  PyObject* thread = thread_object(state_of_thread->thread_id);
  PyObject* name = thread == nullptr ? nullptr : PyObject_GetAttrString(thread, "_name");
#if PY_VERSION_HEX >= 0x030B0000
  const unsigned long tid = state_of_thread->native_thread_id;
#else
  PyObject* id = thread == nullptr ? nullptr : PyObject_GetAttrString(thread, "_native_id");
  const unsigned long tid = id != nullptr && PyLong_Check(id) ? PyLong_AsUnsignedLong(id) : 0;
  Py_XDECREF(id);
#endif
  std::string storage;
  std::string_view bytes = "thread";
  if (name != nullptr && !name_bytes(name, storage, bytes)) bytes = "thread";
  const uint32_t track = tid == 0 ? 0 : track_of_thread(state(), static_cast<uint32_t>(tid), bytes);
  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(thread);
  return track;
}

void name_thread_once() noexcept {
  const Track* track = current_track();
  if (track == nullptr || track->extension != nullptr) return;
  name_thread();
  mark_thread_named();  // a thread unknown to threading keeps the kernel's name
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
