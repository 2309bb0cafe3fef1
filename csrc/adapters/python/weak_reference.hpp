// SPDX-License-Identifier: Apache-2.0
// refers_to(): the target of a weak reference, compared without keeping a reference to it.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Returns whether a weak reference refers to `object`; sets no exception. Once the target is gone,
// that is Py_None up to CPython 3.12, and null from 3.13 on. Requires the GIL or an attached
// thread.
inline bool refers_to(PyObject* reference, PyObject* object) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* target = nullptr;
  if (PyWeakref_GetRef(reference, &target) < 0) PyErr_Clear();
  const bool same = target == object;
  Py_XDECREF(target);
  return same;
#else
  return PyWeakref_GET_OBJECT(reference) == object;
#endif
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
