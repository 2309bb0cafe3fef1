// SPDX-License-Identifier: Apache-2.0
// Creation and destruction of ranges: see range_object.hpp.
#include "bindings/range_object.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

PyTypeObject* range_type = nullptr;

#if !defined(Py_GIL_DISABLED)
// Free list of objects, linked by `more`. Guarded by the GIL.
constexpr uint32_t kMaxFree = 64;
RangeObject* free_objects = nullptr;
uint32_t free_count = 0;
#endif

void clear_fields(RangeObject* self) {
  self->name = nullptr;
  self->site = nullptr;
  self->async_site = nullptr;
  self->site_age = NameAge{};
  self->async_age = NameAge{};
  self->payload = nullptr;
  self->depth = 0;
  self->capacity = 0;
  self->more = nullptr;
}

RangeObject* allocate_exact() {
#if !defined(Py_GIL_DISABLED)
  if (FASTPROF_LIKELY(free_objects != nullptr)) {
    RangeObject* self = free_objects;
    free_objects = reinterpret_cast<RangeObject*>(self->more);
    --free_count;
    self->more = nullptr;
    PyObject_Init(reinterpret_cast<PyObject*>(self), range_type);
    return self;
  }
#endif
  auto* self = PyObject_New(RangeObject, range_type);
  if (self != nullptr) clear_fields(self);
  return self;
}

}  // namespace

void set_range_type(PyTypeObject* type) {
  range_type = type;
}

void range_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  PyTypeObject* type = Py_TYPE(object);
  if (FASTPROF_UNLIKELY(self->depth != 0)) {
    // Destroyed while open: the ranges stay unfinished, but end callbacks are called.
    for (uint32_t i = 0; i < self->depth; ++i) {
      RangeEntry& entry = *entry_at(self, i);
      if (entry.function == nullptr) continue;
      entry.slot = nullptr;
      end_entry_slow(entry, self->site);
    }
    self->depth = 0;
  }
  if (FASTPROF_UNLIKELY(self->more != nullptr)) {
    PyMem_Free(self->more);
    self->more = nullptr;
    self->capacity = 0;
  }
  if (FASTPROF_UNLIKELY(self->payload != nullptr)) {
    delete self->payload;
    self->payload = nullptr;
  }
  self->site = nullptr;
  self->async_site = nullptr;
  self->site_age = NameAge{};
  self->async_age = NameAge{};
  Py_CLEAR(self->name);
#if !defined(Py_GIL_DISABLED)
  if (FASTPROF_LIKELY(type == range_type && free_count < kMaxFree)) {
    self->more = reinterpret_cast<RangeEntry*>(free_objects);
    free_objects = self;
    ++free_count;
    Py_DECREF(type);
    return;
  }
#endif
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* range_new(PyTypeObject* type, PyObject*, PyObject*) {
  auto* self = reinterpret_cast<RangeObject*>(type->tp_alloc(type, 0));
  if (self != nullptr) clear_fields(self);
  return reinterpret_cast<PyObject*>(self);
}

bool set_range_name(RangeObject* self, PyObject* name) {
  if (FASTPROF_UNLIKELY(!PyUnicode_Check(name))) {
    PyErr_Format(PyExc_TypeError, "the name of a range must be a str, not %.100s: %s",
                 Py_TYPE(name)->tp_name, kRangeUsage);
    return false;
  }
  PyObject* exact = name;
  if (FASTPROF_UNLIKELY(!PyUnicode_CheckExact(name))) {
    exact = PyUnicode_FromObject(name);
    if (exact == nullptr) return false;
  } else {
    Py_INCREF(exact);
  }
  PyObject* former = self->name;
  self->name = exact;
  Py_XDECREF(former);
  return true;
}

namespace {

// Handles one keyword argument. Returns false with an error set.
bool add_keyword(RangeObject* self, PyObject* key, PyObject* value) {
  if (PyUnicode_CompareWithASCIIString(key, "name") == 0) {
    if (self->name != nullptr) {
      PyErr_Format(PyExc_TypeError, "the name was given twice: %s", kRangeUsage);
      return false;
    }
    return set_range_name(self, value);
  }
  if (value == Py_None) return true;
  if (self->payload == nullptr) {
    self->payload = new (std::nothrow) RangePayload;
    if (self->payload == nullptr) {
      PyErr_NoMemory();
      return false;
    }
  }
  if (PyUnicode_CompareWithASCIIString(key, "shapes") == 0)
    return add_shapes(*self->payload, value);
  if (PyUnicode_CompareWithASCIIString(key, "flops") == 0) return add_flops(*self->payload, value);
  if (PyUnicode_CompareWithASCIIString(key, "node_id") == 0)
    return add_node_id(*self->payload, value);
  return add_value(*self->payload, key, value);
}

bool add_args(RangeObject* self, PyObject* args) {
  if (args == Py_None) return true;
  PyObject* key = PyUnicode_InternFromString("args");
  const bool ok = key != nullptr && add_keyword(self, key, args);
  Py_XDECREF(key);
  return ok;
}

// Checks that there is a name and frees an empty payload. Returns false with an error set.
bool finish_arguments(RangeObject* self) {
  if (self->name == nullptr) {
    PyErr_Format(PyExc_TypeError, "a range needs a name: %s", kRangeUsage);
    return false;
  }
  if (self->payload != nullptr && self->payload->empty()) {
    delete self->payload;
    self->payload = nullptr;
  }
  return true;
}

bool wrong_count(Py_ssize_t count) {
  PyErr_Format(PyExc_TypeError, "%zd positional arguments were given: %s", count, kRangeUsage);
  return false;
}

}  // namespace

PyObject* range_vectorcall(PyObject*, PyObject* const* args, size_t flagged, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  RangeObject* self = allocate_exact();
  if (FASTPROF_UNLIKELY(self == nullptr)) return nullptr;
  if (FASTPROF_LIKELY(count == 1 && names == nullptr)) {
    if (FASTPROF_LIKELY(PyUnicode_CheckExact(args[0]))) {
      Py_INCREF(args[0]);
      self->name = args[0];
      return reinterpret_cast<PyObject*>(self);
    }
  }
  const bool ok = no_throw([&] {
    if (count > 2) return wrong_count(count);
    if (count >= 1 && !set_range_name(self, args[0])) return false;
    if (count == 2 && !add_args(self, args[1])) return false;
    const Py_ssize_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < keywords; ++i)
      if (!add_keyword(self, PyTuple_GET_ITEM(names, i), args[count + i])) return false;
    return finish_arguments(self);
  });
  if (ok) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
}

int range_init(PyObject* object, PyObject* args, PyObject* keywords) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  if (self->depth != 0) {
    PyErr_SetString(PyExc_RuntimeError,
                    "this range is open: leave it before it is initialised again");
    return -1;
  }
  const bool ok = no_throw([&] {
    Py_CLEAR(self->name);
    self->site = nullptr;
    self->async_site = nullptr;
    self->site_age = NameAge{};
    self->async_age = NameAge{};
    delete self->payload;
    self->payload = nullptr;
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count > 2) return wrong_count(count);
    if (count >= 1 && !set_range_name(self, PyTuple_GET_ITEM(args, 0))) return false;
    if (count == 2 && !add_args(self, PyTuple_GET_ITEM(args, 1))) return false;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (keywords != nullptr && PyDict_Next(keywords, &at, &key, &value))
      if (!add_keyword(self, key, value)) return false;
    return finish_arguments(self);
  });
  return ok ? 0 : -1;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
