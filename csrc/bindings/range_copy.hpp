// SPDX-License-Identifier: Apache-2.0
// Converts a range and its payload to plain Python values and back, for copy and pickle.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/range_payload.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Returns (arguments, members, node id): a tuple of (name, type, word or text), a tuple of (name,
// JSON text) and an int. Null with a Python error set. Requires the GIL.
PyObject* state_of_payload(const RangePayload& payload);

// Restores an unsealed payload from the result of state_of_payload. Returns false with a Python
// error set: ValueError if the tuple is malformed. Requires the GIL.
bool payload_of_state(PyObject* state, RangePayload& payload);

// __reduce__() and __setstate__() of a range.
PyObject* range_reduce(PyObject* object, PyObject*);
PyObject* range_set_state(PyObject* object, PyObject* state);

}  // namespace bindings
FASTPROF_NAMESPACE_END
