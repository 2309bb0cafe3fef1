// SPDX-License-Identifier: Apache-2.0
// RangePayload: what a range carries beside its name: arguments, shapes, FLOPs, node.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "bindings/python_name.hpp"
#include "fastprof/primitives/value.hpp"
#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Made at construction, read at each begin. Numbers and strings become typed argument words of a
// site with their layout; lists and shapes become one JSON text. Holds no Python object, so a range
// needs no garbage collection.
struct RangePayload {
  struct Argument {
    const char* name;  // lasting: the keys of a program are few
    ArgType type;
    uint64_t word;     // of a string: its session string, once sealed
    std::string text;  // of a string
  };
  std::vector<Argument> arguments;  // at most kMaxArgs
  std::vector<std::pair<std::string, std::string>>
      members;  // name and JSON text of each other value
  int64_t node_id = -1;

  const char* json = nullptr;  // session string, object text of `members`; null when there are none
  NameAge sealed;

  bool empty() const noexcept { return arguments.empty() && members.empty() && node_id < 0; }
};

// Adds one value: int, float, bool, str, list or tuple of str (or of int, float, bool). Others are
// left out, as PyTorch does. False with a Python error set only for a failure.
bool add_value(RangePayload& payload, PyObject* name, PyObject* value);
// `shapes`: a sequence of sequences of int, one per argument; null and None are none.
bool add_shapes(RangePayload& payload, PyObject* shapes);
bool add_flops(RangePayload& payload, PyObject* flops);
bool add_node_id(RangePayload& payload, PyObject* node_id);
// Interns the texts, at a begin that records; again after they were reclaimed. `use` then protects
// them until the record is written. What is never recorded takes no room there.
void seal_payload(NameUse& use, RangePayload& payload);

// The session site of `name` with the layout of the payload's arguments, else like `like`, such
// as python_range_site or a scope_site. Null with an error set. GIL held.
const Site* site_with_layout(NameUse& use, PyObject* name, const RangePayload& payload,
                             const Site& like);

// The arguments as RecordFunction callbacks read them.
std::vector<NamedValue> named_values(const RangePayload& payload);

}  // namespace bindings
FASTPROF_NAMESPACE_END
