// SPDX-License-Identifier: Apache-2.0
// RangeObject: the memory of a record_function; its creation from arguments and its end.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

#include "bindings/range_entry.hpp"
#include "bindings/range_payload.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// A range object. It may be entered several times, on several threads; each entry stores its
// thread. The first entry is stored inline, which suffices for most. Holds no reference that could
// be part of a cycle, so it does not support garbage collection.
struct RangeObject {
  PyObject_HEAD PyObject* name;  // exact str; null before __init__
  const Site* site;              // looked up at a begin that records, valid while site_age is
                                 // current; its address serves ends in any case
  const Site* async_site;        // likewise, for async begins
  NameAge site_age;
  NameAge async_age;
  RangePayload* payload;  // usually null
  uint32_t depth;         // number of open entries: first, then more[0..]
  uint32_t capacity;      // capacity of more
  RangeEntry first;
  RangeEntry* more;
};

constexpr const char* kRangeUsage =
    "record_function(name, args=None, *, shapes=None, flops=None, node_id=None, **kwargs)";

inline RangeEntry* entry_at(RangeObject* self, uint32_t index) {
  return index == 0 ? &self->first : &self->more[index - 1];
}

// Converts C++ exceptions of `body` to Python errors (the payload allocates).
template <class Body>
bool no_throw(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return false;
}

// The type's functions; all require the GIL (or the object's lock, without a GIL).
PyObject* range_new(PyTypeObject* type, PyObject* args, PyObject* keywords);
int range_init(PyObject* object, PyObject* args, PyObject* keywords);
void range_dealloc(PyObject* object);
// Creates an object of the exact type, without __new__ and __init__.
PyObject* range_vectorcall(PyObject* type, PyObject* const* args, size_t flagged, PyObject* names);
// Sets the type for range_vectorcall() and range_dealloc(). Call once.
void set_range_type(PyTypeObject* type);

// Replaces the name. Returns false with a TypeError set unless it is a str.
bool set_range_name(RangeObject* self, PyObject* name);

}  // namespace bindings
FASTPROF_NAMESPACE_END
