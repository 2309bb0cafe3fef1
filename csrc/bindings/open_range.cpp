// SPDX-License-Identifier: Apache-2.0
// OpenRange: an object for a range that was begun, for work that ends elsewhere (futures,
// coroutines).
#include "bindings/python_name.hpp"
#include "bindings/range_entry.hpp"
#include "bindings/range_payload.hpp"
#include "bindings/range_type.hpp"
#include "fastprof/recorder/hot_path/site_macros.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

constexpr Site python_async_site = make_site(
    SiteKind::async_range, category::async, RecordScope::USER_SCOPE, "<too many names>", "", "", 0);

struct OpenRangeObject {
  PyObject_HEAD RangeEntry entry;
  const Site* site;   // null: not recorded
  uint32_t is_async;  // an async range: its begin record is never written again
  uint32_t ended;     // atomic; only the first end is recorded
};

PyTypeObject* open_range_type = nullptr;

void open_range_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<OpenRangeObject*>(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->ended == 0 && self->entry.function != nullptr) {
    self->entry.slot = nullptr;  // never ended: the range stays open, but end callbacks are called
    end_entry_slow(self->entry, self->site);
  }
  PyObject_Free(object);
  Py_DECREF(type);
}

PyObject* open_range_end(PyObject* object, PyObject*) {
  auto* self = reinterpret_cast<OpenRangeObject*>(object);
  if (__atomic_exchange_n(&self->ended, 1u, __ATOMIC_ACQ_REL) != 0) Py_RETURN_FALSE;
  if (self->site != nullptr) {
    if (self->is_async != 0)
      end_async(AsyncHandle{self->entry.begin, self->site, self->entry.track});
    end_entry(self->entry, self->site);
  }
  Py_RETURN_TRUE;
}

PyObject* open_range_active(PyObject* object, void*) {
  auto* self = reinterpret_cast<OpenRangeObject*>(object);
  const bool recorded =
      self->entry.slot != nullptr || self->is_async != 0 || self->entry.function != nullptr;
  return PyBool_FromLong(recorded && __atomic_load_n(&self->ended, __ATOMIC_RELAXED) == 0 ? 1 : 0);
}

PyMethodDef open_range_methods[] = {
    {"end", open_range_end, METH_NOARGS,
     "end(self) -> bool\n\nEnd the range, on any thread. Returns False if it has already ended."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef open_range_properties[] = {
    {"active", open_range_active, nullptr, "Whether the range is recorded and has not ended.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot open_range_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(open_range_dealloc)},
    {Py_tp_methods, open_range_methods},
    {Py_tp_getset, open_range_properties},
    {Py_tp_doc, const_cast<char*>("An open range, which end() ends on any thread.")},
    {0, nullptr},
};
PyType_Spec open_range_spec = {
    "fastprof._core.OpenRange", static_cast<int>(sizeof(OpenRangeObject)), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, open_range_slots};

OpenRangeObject* allocate() {
  auto* self = PyObject_New(OpenRangeObject, open_range_type);
  if (self == nullptr) return nullptr;
  self->entry = RangeEntry{};
  self->site = nullptr;
  self->is_async = 0;
  self->ended = 0;
  return self;
}

}  // namespace

PyObject* begin_async_range(PyObject* name, RangePayload* payload, const Site*& site,
                            NameAge& age) {
  OpenRangeObject* self = allocate();
  if (self == nullptr) return nullptr;
  State* s = state();
  if ((load_relaxed(&s->mask) & (category::async | mask_bit::special)) == 0)
    return reinterpret_cast<PyObject*>(self);
  NameUse use;
  if (!use.begin(s) || !age.current(s)) {
    static const RangePayload none;
    if (payload != nullptr) seal_payload(use, *payload);
    age.renew(s);
    site = site_with_layout(use, name, payload != nullptr ? *payload : none, python_async_site);
    if (site == nullptr) {
      age = NameAge{};
      Py_DECREF(self);
      return nullptr;
    }
  }
  RangeEntry& entry = self->entry;
  begin_entry_slow(entry, s, site, payload);
  if (entry.function != nullptr) entry.function->set_async();
  if (entry.slot != nullptr) {
    self->is_async = 1;
    if (entry.begin >> 63 != 0)
      entry.begin = ~entry.begin;  // as begin_async of recorder/hot_path/range.hpp
    entry.slot = nullptr;          // its memory may be reused before the end
  }
  if (self->is_async != 0 || entry.function != nullptr) self->site = site;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* make_open_range(const RangeEntry& entry, const Site* site) {
  OpenRangeObject* self = allocate();
  if (self == nullptr) return nullptr;
  self->entry = entry;
  self->site = entry.slot != nullptr || entry.function != nullptr ? site : nullptr;
  return reinterpret_cast<PyObject*>(self);
}

bool add_open_range_type(PyObject* module) {
  PyObject* type = PyType_FromModuleAndSpec(module, &open_range_spec, nullptr);
  if (type == nullptr) return false;
  open_range_type = reinterpret_cast<PyTypeObject*>(type);
  return PyObject_SetAttrString(module, "OpenRange", type) == 0;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
