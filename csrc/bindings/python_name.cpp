// SPDX-License-Identifier: Apache-2.0
// Names: see python_name.hpp.
#include "bindings/python_name.hpp"

#include <cstring>

#include "fastprof/recorder/intern.hpp"
#include "fastprof/recorder/site_macros.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

constexpr Site python_range_site = make_site(
    SiteKind::range, category::user, RecordScope::USER_SCOPE, "<too many names>", "", "", 0);

bool name_bytes(PyObject* text, std::string& storage, std::string_view& bytes) {
  if (!PyUnicode_Check(text)) {
    PyErr_Format(PyExc_TypeError, "the name must be a str, not %.100s", Py_TYPE(text)->tp_name);
    return false;
  }
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size);
  if (utf8 != nullptr) {
    bytes = {utf8, static_cast<size_t>(size)};
  } else {
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
    PyErr_Clear();
    PyObject* encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    if (encoded == nullptr) return false;
    storage.assign(PyBytes_AS_STRING(encoded), static_cast<size_t>(PyBytes_GET_SIZE(encoded)));
    Py_DECREF(encoded);
    bytes = storage;
  }
  if (std::memchr(bytes.data(), 0, bytes.size()) != nullptr) {
    std::string replaced;
    for (const char c : bytes) {
      if (c == '\0')
        replaced += "\xE2\x90\x80";
      else
        replaced += c;
    }
    storage = std::move(replaced);
    bytes = storage;
  }
  return true;
}

namespace {

const Site* intern_name(NameUse& use, PyObject* name) {
  std::string storage;
  std::string_view bytes;
  if (!name_bytes(name, storage, bytes)) return nullptr;
  return session_site(use, python_range_site, bytes);
}

#if !defined(Py_GIL_DISABLED)
// By the identity of the str, which the entry keeps alive; literals and attributes stay the same
// object, so most names cost one comparison. Guarded by the GIL.
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
  // A subclass of str may run code when it is released. The shared name is not kept: each event
  // that gets it is counted.
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

}  // namespace bindings
FASTPROF_NAMESPACE_END
