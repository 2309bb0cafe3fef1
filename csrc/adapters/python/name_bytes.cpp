// SPDX-License-Identifier: Apache-2.0
// UTF-8 of Python strings: see name_bytes.hpp.
#include "adapters/python/name_bytes.hpp"

#include <cstring>
#include <utility>

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

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

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
