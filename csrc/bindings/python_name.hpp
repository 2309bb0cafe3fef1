// SPDX-License-Identifier: Apache-2.0
// Python strings as the recorder's names, and back.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "fastprof/recorder/name_use.hpp"
#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Ranges made in Python: the interned site of a name is like this one.
extern const Site python_range_site;

// UTF-8 of a str, in `storage` when it has to be changed: lone surrogates as three bytes each, NUL
// as U+2400 (names end at the first NUL). False with a Python error set: not a str, no memory.
bool name_bytes(PyObject* text, std::string& storage, std::string_view& bytes);

// The session site (intern.hpp) of `name` like python_range_site, for as long as `use` lives; null
// with a Python error set. About 2 ns for a str object seen before, 30 ns for an equal one. GIL
// held.
const Site* site_of_name(NameUse& use, PyObject* name);

// A session name that is kept beyond a NameUse. Under a NameUse that has begun, current() tells
// whether it still exists.
struct NameAge {
  uint64_t epoch = 0;
  bool known = false;

  FASTPROF_ALWAYS_INLINE bool current(const State* s) const noexcept {
    return known && epoch == load_relaxed(&s->name_epoch);
  }
  void renew(const State* s) noexcept {
    epoch = load_relaxed(&s->name_epoch);
    known = true;
  }
};

// str of UTF-8 bytes; surrogates come back, what is malformed is escaped as Python does for file
// names. New reference, null with an error set.
PyObject* text_of(std::string_view bytes);

}  // namespace bindings
FASTPROF_NAMESPACE_END
