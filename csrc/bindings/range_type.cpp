// SPDX-License-Identifier: Apache-2.0
// record_function: a named range of the calling thread; context manager and decorator.
#include "bindings/range_type.hpp"

#include <structmember.h>

#include <cstddef>

#include "bindings/python_name.hpp"
#include "bindings/range_copy.hpp"
#include "bindings/range_entry.hpp"
#include "bindings/range_object.hpp"
#include "bindings/range_payload.hpp"

#if PY_VERSION_HEX < 0x030D0000 && !defined(Py_BEGIN_CRITICAL_SECTION)
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// Looks up the site, at the first begin that records and again after names were reclaimed. Returns
// false with an error set.
FASTPROF_NOINLINE bool resolve(RangeObject* self, State* s, NameUse& use) {
  return no_throw([&] {
    if (self->name == nullptr) {
      PyErr_Format(PyExc_RuntimeError, "__init__ was not called: %s", kRangeUsage);
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
      PyErr_Format(PyExc_RuntimeError, "__init__ was not called: %s", kRangeUsage);
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

// Enters with libtorch's number of the RecordFunction that mirrors this entry.
PyObject* range_enter_numbered(PyObject* object, PyObject* number) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  const uint64_t id = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const bool plain = self->payload == nullptr;
  if (plain) self->payload = new (std::nothrow) RangePayload;
  if (self->payload == nullptr) return PyErr_NoMemory();
  self->payload->record_function_id = id;
  PyObject* const entered = range_enter(object, nullptr);
  self->payload->record_function_id = 0;
  if (plain) {
    delete self->payload;
    self->payload = nullptr;
  }
  return entered;
}

PyMethodDef range_methods[] = {
    {"_enter_numbered", range_enter_numbered, METH_O,
     "_enter_numbered(self, number: int) -> record_function\n\n"
     "Begin the range, with libtorch's RecordFunction number of its mirror."},
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
                                  "A named range: a context manager and a decorator. Keywords that "
                                  "are numbers (of NumPy, too), booleans, strings, or lists and "
                                  "tuples of these are its arguments; others are left out. "
                                  "Any thread; one object may be entered on several.")},
    {0, nullptr},
};

PyType_Spec range_spec = {"fastprof._core.record_function", static_cast<int>(sizeof(RangeObject)),
                          0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, range_slots};

}  // namespace

bool add_range_type(PyObject* module) {
  PyObject* type = PyType_FromModuleAndSpec(module, &range_spec, nullptr);
  if (type == nullptr) return false;
  // Never released, because the module is never unloaded.
  auto* const range_type = reinterpret_cast<PyTypeObject*>(type);
  range_type->tp_vectorcall = range_vectorcall;
  set_range_type(range_type);
  return PyObject_SetAttrString(module, "record_function", type) == 0;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
