// SPDX-License-Identifier: Apache-2.0
// Copies of range payloads: see range_copy.hpp.
#include "bindings/range_copy.hpp"

#include <string>
#include <utility>

#include "bindings/python_name.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

std::string bytes_of(const py::handle& value) {
  std::string storage;
  std::string_view bytes;
  if (!name_bytes(value.ptr(), storage, bytes)) throw py::error_already_set();
  return std::string(bytes);
}

py::object argument_value(const RangePayload::Argument& argument) {
  if (argument.type != ArgType::string) return py::int_(argument.word);
  if (!argument.text.empty() || argument.word == 0) return str_of(argument.text);
  return str_of(reinterpret_cast<const char*>(argument.word));  // sealed: an interned string
}

}  // namespace

PyObject* state_of_payload(const RangePayload& payload) {
  try {
    py::list arguments, members;
    for (const RangePayload::Argument& argument : payload.arguments) {
      arguments.append(py::make_tuple(str_of(argument.name), static_cast<int>(argument.type),
                                      argument_value(argument)));
    }
    for (const auto& member : payload.members)
      members.append(py::make_tuple(str_of(member.first), str_of(member.second)));
    return py::make_tuple(py::tuple(arguments), py::tuple(members), payload.node_id)
        .release()
        .ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

bool payload_of_state(PyObject* state, RangePayload& payload) {
  try {
    const auto parts = py::reinterpret_borrow<py::object>(state).cast<py::tuple>();
    for (const py::handle item : parts[0].cast<py::tuple>()) {
      const auto argument = item.cast<py::tuple>();
      const auto type = argument[1].cast<unsigned>();
      if (type > static_cast<unsigned>(ArgType::pointer) || payload.arguments.size() >= kMaxArgs)
        throw py::value_error("invalid state of a record_function");
      RangePayload::Argument made{intern_string(bytes_of(argument[0])), static_cast<ArgType>(type),
                                  0, std::string()};
      if (made.type == ArgType::string) {
        made.text = bytes_of(argument[2]);
      } else {
        made.word = argument[2].cast<uint64_t>();
      }
      payload.arguments.push_back(std::move(made));
    }
    for (const py::handle item : parts[1].cast<py::tuple>()) {
      const auto member = item.cast<py::tuple>();
      payload.members.emplace_back(bytes_of(member[0]), bytes_of(member[1]));
    }
    payload.node_id = parts[2].cast<int64_t>();
    return true;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception&) {
    PyErr_SetString(PyExc_ValueError, "invalid state of a record_function");
  }
  return false;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
