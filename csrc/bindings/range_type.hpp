// SPDX-License-Identifier: Apache-2.0
// The recording Python types: record_function and OpenRange. Plain CPython types, because a call
// through pybind11 takes six times as long.
#pragma once

#include <pybind11/pybind11.h>

#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// `_core.OpenRange`: a begun range, ended by end() on any thread. See open_range.cpp.
struct RangeEntry;
struct RangePayload;
struct NameAge;
bool add_open_range_type(PyObject* module);
// Returns an OpenRange that takes over `entry`. `site` must be interned. New reference; null with
// an error set.
PyObject* make_open_range(const RangeEntry& entry, const Site* site);
// Begins a range that may overlap others of its thread. `site` is looked up at a begin that records
// and cached while `age` is current; `payload` may be null. New reference; null with an error set.
PyObject* begin_async_range(PyObject* name, RangePayload* payload, const Site*& site, NameAge& age);

bool add_range_type(PyObject* module);

}  // namespace bindings
FASTPROF_NAMESPACE_END
