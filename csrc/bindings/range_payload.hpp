// SPDX-License-Identifier: Apache-2.0
// RangePayload: the optional data of a range: arguments, shapes, FLOPs, node id.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "bindings/python_name.hpp"
#include "fastprof/primitives/value.hpp"
#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Created with the range object, read at each begin. Numbers and strings become typed argument
// words of a site with that layout; lists and shapes become one JSON text. Holds no Python object,
// so a range object needs no garbage collection.
struct RangePayload {
  struct Argument {
    const char* name;  // lasting name: a program uses few different keys
    ArgType type;
    uint64_t word;     // for a string: its session string, once sealed
    std::string text;  // content of a string
  };
  std::vector<Argument> arguments;  // at most kMaxArgs
  // Name and JSON text of the other values.
  std::vector<std::pair<std::string, std::string>> members;
  int64_t node_id = -1;
  uint64_t record_function_id = 0;  // libtorch's number of the next entry, 0 for none

  const char* json = nullptr;  // session string, JSON object with `members`; null if there are none
  NameAge sealed;

  bool empty() const noexcept {
    return arguments.empty() && members.empty() && node_id < 0 && record_function_id == 0;
  }
};

// Returns a new reference to the int, float or bool that a NumPy scalar stands for; to the value
// itself if it is none. Other types with __float__ are not asked for it: a tensor would wait for
// its device. Null with an error set.
PyObject* python_number(PyObject* value);
// Adds one value: int, float, bool, str, such a scalar of NumPy, or a list or tuple of these. Other
// types are ignored, as in PyTorch. Returns false with a Python error set only if the conversion
// fails.
bool add_value(RangePayload& payload, PyObject* name, PyObject* value);
// `shapes`: a sequence of sequences of int, one per argument; null and None mean none.
bool add_shapes(RangePayload& payload, PyObject* shapes);
bool add_flops(RangePayload& payload, PyObject* flops);
bool add_node_id(RangePayload& payload, PyObject* node_id);
// Interns the texts; called at a begin that records, and repeated after names were reclaimed. `use`
// protects them until the record is written. A range that is never recorded interns nothing.
void seal_payload(NameUse& use, RangePayload& payload);

// Returns the session site of `name` with the payload's argument layout; without arguments its
// prototype is `like`, such as python_range_site or a scope_site. Null with an error set. Requires
// the GIL.
const Site* site_with_layout(NameUse& use, PyObject* name, const RangePayload& payload,
                             const Site& like);

// Returns the arguments as RecordFunction callbacks receive them.
std::vector<NamedValue> named_values(const RangePayload& payload);

}  // namespace bindings
FASTPROF_NAMESPACE_END
