// SPDX-License-Identifier: Apache-2.0
// Conversion of names: see python_name.hpp.
#include "bindings/python_name.hpp"

#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/hot_path/site_macros.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

constexpr Site python_range_site = make_site(
    SiteKind::range, category::user, RecordScope::USER_SCOPE, "<too many names>", "", "", 0);

namespace {

const Site* intern_name(NameUse& use, PyObject* name) {
  std::string storage;
  std::string_view bytes;
  if (!name_bytes(name, storage, bytes)) return nullptr;
  return session_site(use, python_range_site, bytes);
}

#if !defined(Py_GIL_DISABLED)
// Cache keyed by the identity of the str object, which the entry keeps alive. Literals and
// attribute names stay the same object, so most lookups are one comparison. Guarded by the GIL.
struct NameEntry {
  PyObject* name;
  const Site* site;
  uint64_t epoch;  // State::name_epoch at the lookup
};
constexpr size_t kNameEntries = 1024;
constexpr Py_ssize_t kMaxCachedLength = 256;
NameEntry name_cache[kNameEntries];
#endif

}  // namespace

const Site* site_of_name(NameUse& use, PyObject* name) {
#if !defined(Py_GIL_DISABLED)
  State* s = state();
  if (FASTPROF_UNLIKELY(!use.begin(s))) return &python_range_site;
  const uint64_t epoch = load_relaxed(&s->name_epoch);
  const auto address = reinterpret_cast<uintptr_t>(name);
  NameEntry& entry = name_cache[(address >> 4 ^ address >> 14) % kNameEntries];
  if (FASTPROF_LIKELY(entry.name == name && entry.epoch == epoch)) return entry.site;
  const Site* site = intern_name(use, name);
  // Only exact str: releasing a subclass instance may run code. The shared overflow name is not
  // cached, because each event that gets it is counted.
  if (site != nullptr && site != &python_range_site && PyUnicode_CheckExact(name) &&
      PyUnicode_GET_LENGTH(name) <= kMaxCachedLength) {
    PyObject* const former = entry.name;
    Py_INCREF(name);
    entry = {name, site, epoch};
    Py_XDECREF(former);
  }
  return site;
#else
  return intern_name(use, name);
#endif
}

PyObject* text_of(std::string_view bytes) {
  const auto size = static_cast<Py_ssize_t>(bytes.size());
  for (const char* errors : {"strict", "surrogatepass"}) {
    if (PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), size, errors)) return text;
    if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return nullptr;
    PyErr_Clear();
  }
  return PyUnicode_DecodeUTF8(bytes.data(), size, "surrogateescape");
}

pybind11::str str_of(std::string_view bytes) {
  PyObject* made = text_of(bytes);
  if (made == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(made);
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
