// SPDX-License-Identifier: Apache-2.0
// Converts Python strings to the recorder's names, and back.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

#include "adapters/python/name_bytes.hpp"
#include "fastprof/recorder/hot_path/name_use.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Prototype of the sites of ranges made in Python.
extern const Site python_range_site;

using python_adapter::name_bytes;

// Returns the session site (intern.hpp) of `name` with prototype python_range_site, valid while
// `use` lives; null with a Python error set. About 2 ns for a str object seen before, 30 ns for an
// equal one. Requires the GIL.
const Site* site_of_name(NameUse& use, PyObject* name);

// Validity of a session name cached beyond a NameUse. current() returns whether it still exists;
// call it under a NameUse that has begun.
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

// Decodes UTF-8 bytes to a str. Encoded surrogates are restored; malformed bytes are escaped as in
// Python's file names (surrogateescape). New reference; null with an error set.
PyObject* text_of(std::string_view bytes);

// The same as an object of pybind11; throws error_already_set.
pybind11::str str_of(std::string_view bytes);

}  // namespace bindings
FASTPROF_NAMESPACE_END
