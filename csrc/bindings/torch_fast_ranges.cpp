// SPDX-License-Identifier: Apache-2.0
// Records PyTorch's _RecordFunctionFast: see torch_fast_ranges.hpp.
#include "bindings/torch_fast_ranges.hpp"

#include <new>
#include <vector>

#include "adapters/torch/debug_info/memory_reporter.hpp"
#include "adapters/torch/ops/thread_ops.hpp"
#include "bindings/python_name.hpp"
#include "bindings/range_entry.hpp"
#include "bindings/range_payload.hpp"
#include "fastprof/primitives/scope_site.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// Mirrors torch's object layout; verified on an object created here before any other is read.
struct FastObject {
  PyObject_HEAD PyObject* name;
  PyObject* input_values;
  PyObject* keyword_values;
  void* guard;  // the RecordFunction that torch created, if any
};

struct Open {
  PyObject* object;  // only compared, never dereferenced: it may be freed
  const Site* site;
  RangeEntry entry;
};

// All members are guarded by the GIL, or by `lock` in free-threaded builds.
struct FastRanges {
  PyTypeObject* type = nullptr;  // never released once set
  PyObject* enter = nullptr;     // torch's own entries
  PyObject* leave = nullptr;
  PyObject* our_enter = nullptr;
  PyObject* our_leave = nullptr;
  PyCFunction torch_leave = nullptr;  // what `leave` called
  uint64_t count = 0;
  std::vector<Open> open;
  PyThread_type_lock lock = nullptr;
};
FastRanges& fast_ranges() noexcept {
  static FastRanges& all = *new FastRanges;
  return all;
}

struct Locked {
#if defined(Py_GIL_DISABLED)
  Locked() {
    PyThread_acquire_lock(fast_ranges().lock, WAIT_LOCK);
  }
  ~Locked() {
    PyThread_release_lock(fast_ranges().lock);
  }
#else
  Locked() {}
  ~Locked() {}
#endif
};

bool is_user_scope(PyObject* keywords) {
  PyObject* scope = PyDict_GetItemString(keywords, "scope");
  return scope != nullptr && PyUnicode_Check(scope) &&
         PyUnicode_CompareWithASCIIString(scope, "user_scope") == 0;
}

// Returns the site of an object; null with an error set.
const Site* site_of(NameUse& use, const FastObject* fast, RangePayload* payload) {
  PyObject* keywords = fast->keyword_values;
  RecordScope scope = RecordScope::FUNCTION;
  if (keywords != nullptr && PyDict_Check(keywords)) {
    if (is_user_scope(keywords)) scope = RecordScope::USER_SCOPE;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(keywords, &at, &key, &value))
      if (PyUnicode_Check(key) && !add_value(*payload, key, value)) return nullptr;
    seal_payload(use, *payload);
  }
  return site_with_layout(use, fast->name, *payload, scope_site(scope));
}

void begin_fast_range(PyObject* object) {
  const auto* fast = reinterpret_cast<const FastObject*>(object);
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if ((mask & (category::op | category::user | mask_bit::special)) == 0) return;
  if (fast->name == nullptr || !PyUnicode_Check(fast->name)) return;
  RangePayload payload;
  NameUse use;
  Open open{object, site_of(use, fast, &payload), {}};
  if (open.site == nullptr) throw py::error_already_set();
  if ((mask & (open.site->mask | mask_bit::special)) == 0) return;
  open.entry.thread = this_thread();
  begin_entry(open.entry, s, mask, open.site, payload.empty() ? nullptr : &payload);
  if (open.entry.slot == nullptr && open.entry.function == nullptr) return;
  const Locked hold;
  fast_ranges().open.push_back(open);
}

// Calls torch's method. While torch's profiler is active, it makes a RecordFunction, which the op
// observer skips, because it has less information than the object. Without one, torch makes
// nothing; what it would make for a memory reporter could outlive that.
PyObject* torch_enter(PyObject* object) {
  if (torch_adapter::reporter_is_on_thread()) Py_RETURN_NONE;
  PyObject* arguments[] = {object};
  torch_adapter::ThreadOps* ops = torch_adapter::thread_ops();
  if (FASTPROF_UNLIKELY(ops == nullptr)) ops = torch_adapter::make_thread_ops();
  if (FASTPROF_LIKELY(ops != nullptr)) ops->flags |= torch_adapter::ops_flag::paused;
  PyObject* result = PyObject_Vectorcall(fast_ranges().enter, arguments, 1, nullptr);
  if (FASTPROF_LIKELY(ops != nullptr)) ops->flags &= ~torch_adapter::ops_flag::paused;
  return result;
}

PyObject* fast_enter(PyObject* object, PyObject*) {
  PyObject* result = torch_enter(object);
  if (result == nullptr) return nullptr;
  try {
    begin_fast_range(object);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("the range of a _RecordFunctionFast");
  } catch (const std::bad_alloc&) {  // continue without the range
  }
  return result;
}

PyObject* fast_exit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  {
    const Locked hold;
    std::vector<Open>& open = fast_ranges().open;
    for (size_t i = open.size(); i-- > 0;) {
      if (open[i].object != object) continue;
      end_entry(open[i].entry, open[i].site);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  PyObject* all[8] = {object};
  if (count > 7) count = 7;  // __exit__ takes three
  for (Py_ssize_t i = 0; i < count; ++i) all[i + 1] = args[i];
  return PyObject_Vectorcall(fast_ranges().leave, all, static_cast<size_t>(count) + 1, nullptr);
}

// Replaces the function of torch's __exit__, for good. That one fails if the thread has a profiler
// state now, and had none when the range began, as when a memory reporter came to the thread
// meanwhile. A `with` block that began before has bound torch's method already, so that replacing
// it in the type does not suffice.
PyObject* leave_unless_unguarded(PyObject* object, PyObject* args) {
  if (reinterpret_cast<const FastObject*>(object)->guard == nullptr) Py_RETURN_NONE;
  return fast_ranges().torch_leave(object, args);
}

void guard_leave(FastRanges& all, PyObject* leave) {
  if (Py_TYPE(leave) != &PyMethodDescr_Type) return;
  PyMethodDef* method = reinterpret_cast<PyMethodDescrObject*>(leave)->d_method;
  if (method->ml_flags != METH_VARARGS) return;
  all.torch_leave = method->ml_meth;
  method->ml_meth = leave_unless_unguarded;
}

PyMethodDef fast_methods[] = {
    {"__enter__", fast_enter, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fast_exit)),
     METH_FASTCALL, nullptr},
};

// Returns the type's own dictionary, borrowed, not a copy.
PyObject* dictionary_of(PyTypeObject* type) {
  return type->tp_dict;
}

std::string wrong_about(PyTypeObject* type) {
  constexpr const char* unknown = "the layout of _RecordFunctionFast in this torch is unknown";
  if (type->tp_basicsize != static_cast<Py_ssize_t>(sizeof(FastObject)) || type->tp_itemsize != 0 ||
      dictionary_of(type) == nullptr)
    return unknown;
  const py::str name("fastprof: a range that is not entered");
  const py::list values;
  py::dict keywords;
  keywords["key"] = 1;
  const py::object probe =
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type))(name, values, keywords);
  const auto* fast = reinterpret_cast<const FastObject*>(probe.ptr());
  if (Py_TYPE(probe.ptr()) != type || fast->name != name.ptr() ||
      fast->input_values != values.ptr() || fast->keyword_values != keywords.ptr() ||
      fast->guard != nullptr)
    return unknown;
  return {};
}

void exchange(PyTypeObject* type, PyObject* enter, PyObject* leave) {
  PyObject* dictionary = dictionary_of(type);
  if (PyDict_SetItemString(dictionary, "__enter__", enter) != 0 ||
      PyDict_SetItemString(dictionary, "__exit__", leave) != 0)
    throw py::error_already_set();
  PyType_Modified(type);  // invalidates the lookup cache of the type
}

}  // namespace

std::string observe_fast_ranges(PyObject* object) {
  FastRanges& all = fast_ranges();
  if (!PyType_Check(object)) return "_RecordFunctionFast of this torch is not a type";
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  if (type != all.type) {
    std::string wrong = wrong_about(type);
    if (!wrong.empty()) return wrong;
    if (all.type != nullptr) return "two types _RecordFunctionFast exist in this process";
    PyObject* dictionary = dictionary_of(type);
    PyObject* enter = PyDict_GetItemString(dictionary, "__enter__");
    PyObject* leave = PyDict_GetItemString(dictionary, "__exit__");
    if (enter == nullptr || leave == nullptr)
      return "_RecordFunctionFast has no __enter__ or __exit__";
    all.our_enter = PyDescr_NewMethod(type, &fast_methods[0]);
    all.our_leave = all.our_enter == nullptr ? nullptr : PyDescr_NewMethod(type, &fast_methods[1]);
    if (all.our_leave == nullptr) throw py::error_already_set();
    Py_INCREF(enter);
    Py_INCREF(leave);
    Py_INCREF(object);
    all.enter = enter;
    all.leave = leave;
    guard_leave(all, leave);
    all.lock = PyThread_allocate_lock();
    all.type = type;
  }
  if (all.count++ == 0) exchange(type, all.our_enter, all.our_leave);
  return {};
}

void release_fast_ranges() {
  FastRanges& all = fast_ranges();
  if (all.count == 0 || --all.count != 0) return;
  exchange(all.type, all.enter, all.leave);
  const Locked hold;
  all.open.clear();
}

void forget_fast_ranges_in_child() {
  FastRanges& all = fast_ranges();
  if (all.count == 0) return;
  all.count = 0;
  all.open.clear();
  exchange(all.type, all.enter, all.leave);
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
