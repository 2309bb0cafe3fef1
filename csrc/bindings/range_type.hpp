// SPDX-License-Identifier: Apache-2.0
// The Python types that record: record_function and OpenRange. Plain CPython types: pybind11 costs
// six times as much a call.
#pragma once

#include <pybind11/pybind11.h>

#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// A begun range by itself: `_core.OpenRange`, ended by end() on any thread. See open_range.cpp.
struct RangeEntry;
struct RangePayload;
struct NameAge;
bool add_open_range_type(PyObject* module);
// Takes the entry over. `site` must be interned. New reference, null with an error set.
PyObject* make_open_range(const RangeEntry& entry, const Site* site);
// Begins a range that may overlap others of its thread. `site` is found at a begin that records and
// kept for the next while `age` is current; `payload` may be null. New reference, null with an
// error set.
PyObject* begin_async_range(PyObject* name, RangePayload* payload, const Site*& site, NameAge& age);

bool add_range_type(PyObject* module);

}  // namespace bindings
FASTPROF_NAMESPACE_END
