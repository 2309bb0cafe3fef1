// SPDX-License-Identifier: Apache-2.0
// The payload of a range as plain Python values and back, for copy and pickle.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/range_payload.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// (arguments, members, node id): a tuple of (name, type, word or text), a tuple of (name, JSON
// text) and an int. Null with a Python error set. GIL held.
PyObject* state_of_payload(const RangePayload& payload);

// The unsealed payload of such a state. False with a Python error set: ValueError for a tuple that
// state_of_payload cannot have made. GIL held.
bool payload_of_state(PyObject* state, RangePayload& payload);

}  // namespace bindings
FASTPROF_NAMESPACE_END
