// SPDX-License-Identifier: Apache-2.0
// Naming threads: see thread_name.hpp.
#include "adapters/python/thread_name.hpp"

#include <Python.h>

#include <string>
#include <string_view>

#include "adapters/python/name_bytes.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

void mark_thread_named() noexcept {
  static const char named = 0;
  if (Track* track = current_track()) track->extension = const_cast<char*>(&named);
}

bool name_thread() noexcept {
  Track* track = current_track();
  if (track == nullptr) return false;
  if (track->extension != nullptr) return true;
  // Reads threading._active, because current_thread() would register a foreign thread; and _name,
  // because the property `name` is a Python function, during which the GIL may change hands.
  PyObject* key = PyUnicode_FromString("threading");
  PyObject* module = key == nullptr ? nullptr : PyImport_GetModule(key);
  PyObject* active = module == nullptr ? nullptr : PyObject_GetAttrString(module, "_active");
  PyObject* ident =
      active == nullptr ? nullptr : PyLong_FromUnsignedLong(PyThread_get_thread_ident());
  PyObject* thread = ident == nullptr ? nullptr : PyObject_GetItem(active, ident);
  PyObject* name = thread == nullptr ? nullptr : PyObject_GetAttrString(thread, "_name");
  std::string storage;
  std::string_view bytes;
  const bool named = name != nullptr && name_bytes(name, storage, bytes);
  if (named) {
    set_thread_name(bytes);
    mark_thread_named();
  }
  PyErr_Clear();
  for (PyObject* object : {key, module, active, ident, thread, name}) Py_XDECREF(object);
  return named;
}

void name_thread_once() noexcept {
  const Track* track = current_track();
  if (track == nullptr || track->extension != nullptr) return;
  name_thread();
  mark_thread_named();  // a thread unknown to threading keeps the kernel's name
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
