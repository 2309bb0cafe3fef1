// SPDX-License-Identifier: Apache-2.0
// record_function: a named range of the calling thread; context manager and decorator.
#include "bindings/range_type.hpp"

#include <structmember.h>

#include <cstddef>
#include <new>

#include "bindings/python_name.hpp"
#include "bindings/range_copy.hpp"
#include "bindings/range_entry.hpp"
#include "bindings/range_payload.hpp"

#if PY_VERSION_HEX < 0x030D0000 && !defined(Py_BEGIN_CRITICAL_SECTION)
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// A range object. It may be entered several times, on several threads; each entry stores its
// thread. The first entry is stored inline, which suffices for most. Holds no reference that could
// be part of a cycle, so it does not support garbage collection.
struct RangeObject {
  PyObject_HEAD PyObject* name;  // exact str; null before __init__
  const Site* site;              // resolved at a begin that records, valid while site_age is
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

RangeEntry* entry_at(RangeObject* self, uint32_t index) {
  return index == 0 ? &self->first : &self->more[index - 1];
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

constexpr const char* kUsage =
    "record_function(name, args=None, *, shapes=None, flops=None, node_id=None, **kwargs)";

bool set_name(RangeObject* self, PyObject* name) {
  if (FASTPROF_UNLIKELY(!PyUnicode_Check(name))) {
    PyErr_Format(PyExc_TypeError, "the name of a range must be a str, not %.100s: %s",
                 Py_TYPE(name)->tp_name, kUsage);
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

// Handles one keyword argument. Returns false with an error set.
bool add_keyword(RangeObject* self, PyObject* key, PyObject* value) {
  if (PyUnicode_CompareWithASCIIString(key, "name") == 0) {
    if (self->name != nullptr) {
      PyErr_Format(PyExc_TypeError, "the name was given twice: %s", kUsage);
      return false;
    }
    return set_name(self, value);
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
    PyErr_Format(PyExc_TypeError, "a range needs a name: %s", kUsage);
    return false;
  }
  if (self->payload != nullptr && self->payload->empty()) {
    delete self->payload;
    self->payload = nullptr;
  }
  return true;
}

bool wrong_count(Py_ssize_t count) {
  PyErr_Format(PyExc_TypeError, "%zd positional arguments were given: %s", count, kUsage);
  return false;
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
    if (count >= 1 && !set_name(self, args[0])) return false;
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
    if (count >= 1 && !set_name(self, PyTuple_GET_ITEM(args, 0))) return false;
    if (count == 2 && !add_args(self, PyTuple_GET_ITEM(args, 1))) return false;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (keywords != nullptr && PyDict_Next(keywords, &at, &key, &value))
      if (!add_keyword(self, key, value)) return false;
    return finish_arguments(self);
  });
  return ok ? 0 : -1;
}

// Looks up the site, at the first begin that records and again after names were reclaimed. Returns
// false with an error set.
FASTPROF_NOINLINE bool resolve(RangeObject* self, State* s, NameUse& use) {
  return no_throw([&] {
    if (self->name == nullptr) {
      PyErr_Format(PyExc_RuntimeError, "__init__ was not called: %s", kUsage);
      return false;
    }
    if (self->payload != nullptr) seal_payload(use, *self->payload);
    self->site = self->payload != nullptr
                     ? site_with_layout(use, self->name, *self->payload, python_range_site)
                     : site_of_name(use, self->name);
    if (self->site != nullptr && (self->site->flags & site_flag::reclaimable) != 0)
      self->site_age.renew(s);
    return self->site != nullptr;
  });
}

FASTPROF_NOINLINE RangeEntry* push_entry(RangeObject* self) {
  if (self->depth - 1 == self->capacity) {
    const uint32_t capacity = self->capacity == 0 ? 4 : self->capacity * 2;
    auto* grown =
        static_cast<RangeEntry*>(PyMem_Realloc(self->more, capacity * sizeof(RangeEntry)));
    if (grown == nullptr) {
      PyErr_NoMemory();
      return nullptr;
    }
    self->more = grown;
    self->capacity = capacity;
  }
  return &self->more[self->depth - 1];
}

bool enter(RangeObject* self) {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  RangeEntry* entry = &self->first;
  if (FASTPROF_UNLIKELY(self->depth != 0)) {
    entry = push_entry(self);
    if (entry == nullptr) return false;
  }
  entry->slot = nullptr;
  entry->function = nullptr;
  entry->detached = 0;
  entry->thread = this_thread();
  if (FASTPROF_UNLIKELY((mask & (category::user | mask_bit::special)) != 0)) {
    NameUse use;
    if (FASTPROF_UNLIKELY(!use.begin(s) || !self->site_age.current(s)) && !resolve(self, s, use))
      return false;
    ++self->depth;
    begin_entry(*entry, s, mask, self->site, self->payload);
    return true;
  }
  ++self->depth;
  return true;
}

// Returns the index of the entry that an end on this thread closes: this thread's last one, else
// the last one.
FASTPROF_NOINLINE uint32_t entry_of_thread(RangeObject* self) {
  const uintptr_t thread = this_thread();
  for (uint32_t i = self->depth; i-- > 0;)
    if (entry_at(self, i)->thread == thread) return i;
  return self->depth - 1;
}

bool not_entered() {
  PyErr_SetString(PyExc_RuntimeError,
                  "this range is not open: __exit__ needs an __enter__ before it");
  return false;
}

bool leave(RangeObject* self) {
  if (FASTPROF_LIKELY(self->depth == 1)) {
    self->depth = 0;
    if (FASTPROF_LIKELY(self->first.detached == 0)) end_entry(self->first, self->site);
    return true;
  }
  if (self->depth == 0) return not_entered();
  const uint32_t index = entry_of_thread(self);
  RangeEntry entry = *entry_at(self, index);
  if (entry.detached == 0) end_entry(entry, self->site);
  for (uint32_t i = index; i + 1 < self->depth; ++i) *entry_at(self, i) = *entry_at(self, i + 1);
  --self->depth;
  return true;
}

PyObject* range_enter(PyObject* object, PyObject*) {
  bool ok;
  Py_BEGIN_CRITICAL_SECTION(object);
  ok = enter(reinterpret_cast<RangeObject*>(object));
  Py_END_CRITICAL_SECTION();
  if (FASTPROF_UNLIKELY(!ok)) return nullptr;
  Py_INCREF(object);
  return object;
}

PyObject* range_exit(PyObject* object, PyObject* const*, Py_ssize_t) {
  bool ok;
  Py_BEGIN_CRITICAL_SECTION(object);
  ok = leave(reinterpret_cast<RangeObject*>(object));
  Py_END_CRITICAL_SECTION();
  if (FASTPROF_UNLIKELY(!ok)) return nullptr;
  Py_INCREF(Py_None);
  return Py_None;
}

// Moves this thread's entry to an OpenRange, which a future's completion ends; __exit__ then
// records no end.
PyObject* range_detach(PyObject* object, PyObject*) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  RangeEntry entry{};
  const Site* site = nullptr;
  bool ok = false;
  Py_BEGIN_CRITICAL_SECTION(object);
  if (self->depth == 0) {
    not_entered();
  } else {
    RangeEntry& mine = *entry_at(self, entry_of_thread(self));
    if (mine.detached != 0) {
      PyErr_SetString(
          PyExc_RuntimeError,
          "the end of this range was handed to a future already: that can be done once");
    } else {
      entry = mine;
      site = self->site;
      mine.detached = 1;
      mine.slot = nullptr;
      mine.function = nullptr;
      ok = true;
    }
  }
  Py_END_CRITICAL_SECTION();
  return ok ? make_open_range(entry, site) : nullptr;
}

// Begins a separate range for work that interleaves with other work: one call of an async function.
PyObject* range_begin_async(PyObject* object, PyObject*) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  PyObject* open = nullptr;
  Py_BEGIN_CRITICAL_SECTION(object);
  no_throw([&] {
    if (self->name == nullptr) {
      PyErr_Format(PyExc_RuntimeError, "__init__ was not called: %s", kUsage);
      return false;
    }
    open = begin_async_range(self->name, self->payload, self->async_site, self->async_age);
    return open != nullptr;
  });
  Py_END_CRITICAL_SECTION();
  return open;
}

// Calls a function of record/ranges.py, which implements the Python part of a range, with the range
// as first argument.
PyObject* call_ranges(const char* name, PyObject* object, PyObject* args, PyObject* keywords) {
  PyObject* module = PyImport_ImportModule("fastprof.record.ranges");
  if (module == nullptr) return nullptr;
  PyObject* function = PyObject_GetAttrString(module, name);
  Py_DECREF(module);
  if (function == nullptr) return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject* all = PyTuple_New(count + 1);
  PyObject* result = nullptr;
  if (all != nullptr) {
    Py_INCREF(object);
    PyTuple_SET_ITEM(all, 0, object);
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PyTuple_GET_ITEM(args, i);
      Py_INCREF(item);
      PyTuple_SET_ITEM(all, i + 1, item);
    }
    result = PyObject_Call(function, all, keywords);
    Py_DECREF(all);
  }
  Py_DECREF(function);
  return result;
}

// @record_function("name")
PyObject* range_call(PyObject* object, PyObject* args, PyObject* keywords) {
  return call_ranges("_decorate", object, args, keywords);
}

PyObject* range_end_on_future(PyObject* object, PyObject* args) {
  return call_ranges("_end_on_future", object, args, nullptr);
}

PyObject* range_repr(PyObject* object) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  return PyUnicode_FromFormat("<%s %R%s>", "record_function",
                              self->name != nullptr ? self->name : Py_None,
                              self->depth != 0 ? ", open" : "");
}

PyObject* get_name(PyObject* object, void*) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  PyObject* name = self->name != nullptr ? self->name : Py_None;
  Py_INCREF(name);
  return name;
}

// For copy and pickle: returns the name and payload. The copy is not entered, even if the range is.
// It is created by the class's __new__ without __init__, whose arguments a subclass may have
// changed.
PyObject* range_reduce(PyObject* object, PyObject*) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  PyObject* module = PyImport_ImportModule("copyreg");
  if (module == nullptr) return nullptr;
  PyObject* make = PyObject_GetAttrString(module, "__newobj__");
  Py_DECREF(module);
  if (make == nullptr) return nullptr;
  PyObject* payload = Py_None;
  Py_INCREF(payload);
  if (self->payload != nullptr) {
    Py_DECREF(payload);
    payload = state_of_payload(*self->payload);
  }
  PyObject* fields = nullptr;  // attributes of a subclass
  if (payload != nullptr) {
    fields = PyObject_GetAttrString(object, "__dict__");
    if (fields == nullptr) {
      PyErr_Clear();
      fields = Py_None;
      Py_INCREF(fields);
    }
  }
  PyObject* name = self->name != nullptr ? self->name : Py_None;
  PyObject* result = fields == nullptr
                         ? nullptr
                         : Py_BuildValue("O(O)(OOO)", make, Py_TYPE(object), name, payload, fields);
  Py_XDECREF(fields);
  Py_XDECREF(payload);
  Py_DECREF(make);
  return result;
}

PyObject* range_set_state(PyObject* object, PyObject* state) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  PyObject *name, *payload, *fields;
  if (!PyArg_ParseTuple(state, "OOO:__setstate__", &name, &payload, &fields)) return nullptr;
  if (self->name != nullptr || self->payload != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "__setstate__ is for new objects");
    return nullptr;
  }
  if (name != Py_None && !set_name(self, name)) return nullptr;
  if (payload != Py_None) {
    self->payload = new (std::nothrow) RangePayload;
    if (self->payload == nullptr) return PyErr_NoMemory();
    if (!payload_of_state(payload, *self->payload)) return nullptr;
  }
  if (fields != Py_None) {
    PyObject* own = PyObject_GetAttrString(object, "__dict__");
    const bool ok = own != nullptr && PyDict_Update(own, fields) == 0;
    Py_XDECREF(own);
    if (!ok) return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef range_methods[] = {
    {"__reduce__", range_reduce, METH_NOARGS,
     "__reduce__(self) -> tuple[Any, ...]\n\n"
     "For copy and pickle: a closed range with the same name and arguments."},
    {"__setstate__", range_set_state, METH_O, "__setstate__(self, state: Any) -> None"},
    {"__enter__", range_enter, METH_NOARGS,
     "__enter__(self) -> record_function\n\nBegin the range on the calling thread."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(range_exit)),
     METH_FASTCALL,
     "__exit__(self, kind: object = None, error: object = None, trace: object = None) -> None\n\n"
     "End it. Exceptions pass through."},
    {"_detach", range_detach, METH_NOARGS,
     "_detach(self) -> OpenRange\n\nHand the end of the open range to what is returned."},
    {"_begin_async", range_begin_async, METH_NOARGS,
     "_begin_async(self) -> OpenRange\n\nBegin a range that may overlap others of its thread; "
     "what is returned ends it."},
    {"_call_end_callbacks_on_future", range_end_on_future, METH_VARARGS,
     "_call_end_callbacks_on_future(self, future: Any) -> Any\n\n"
     "End the range when the future completes instead of at the end of the block. Returns a future "
     "of the same kind that "
     "completes after the end is recorded; call it once, inside the block."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef range_properties[] = {
    {"name", get_name, nullptr, "The name given.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot range_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(range_dealloc)},
    {Py_tp_new, reinterpret_cast<void*>(range_new)},
    {Py_tp_init, reinterpret_cast<void*>(range_init)},
    {Py_tp_call, reinterpret_cast<void*>(range_call)},
    {Py_tp_repr, reinterpret_cast<void*>(range_repr)},
    {Py_tp_methods, range_methods},
    {Py_tp_getset, range_properties},
    {Py_tp_doc, const_cast<char*>("record_function(name, args=None, *, shapes=None, flops=None, "
                                  "node_id=None, **kwargs)\n--\n\n"
                                  "A named range: a context manager and a decorator.")},
    {0, nullptr},
};

PyType_Spec range_spec = {"fastprof._core.record_function", static_cast<int>(sizeof(RangeObject)),
                          0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, range_slots};

}  // namespace

bool add_range_type(PyObject* module) {
  PyObject* type = PyType_FromModuleAndSpec(module, &range_spec, nullptr);
  if (type == nullptr) return false;
  // Never released, because the module is never unloaded.
  range_type = reinterpret_cast<PyTypeObject*>(type);
  range_type->tp_vectorcall = range_vectorcall;
  return PyObject_SetAttrString(module, "record_function", type) == 0;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
