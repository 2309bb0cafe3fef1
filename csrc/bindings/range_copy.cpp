// SPDX-License-Identifier: Apache-2.0
// Copies of ranges and of their payloads: see range_copy.hpp.
#include "bindings/range_copy.hpp"

#include <new>
#include <string>
#include <utility>

#include "bindings/python_name.hpp"
#include "bindings/range_object.hpp"
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

// For copy and pickle: returns the name and payload. The copy is not entered, even if the range is.
// It is created by the class's __new__ without __init__, whose arguments a subclass may have
// changed.
PyObject* range_reduce(PyObject* object, PyObject*) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  PyObject* module = PyImport_ImportModule("copyreg");
  if (module == nullptr) return nullptr;
  PyObject* make = PyObject_GetAttrString(module, "__newobj__");
  Py_DECREF(module);
  if (make == nullptr) return nullptr;
  PyObject* payload = Py_None;
  Py_INCREF(payload);
  if (self->payload != nullptr) {
    Py_DECREF(payload);
    payload = state_of_payload(*self->payload);
  }
  PyObject* fields = nullptr;  // attributes of a subclass
  if (payload != nullptr) {
    fields = PyObject_GetAttrString(object, "__dict__");
    if (fields == nullptr) {
      PyErr_Clear();
      fields = Py_None;
      Py_INCREF(fields);
    }
  }
  PyObject* name = self->name != nullptr ? self->name : Py_None;
  PyObject* result = fields == nullptr
                         ? nullptr
                         : Py_BuildValue("O(O)(OOO)", make, Py_TYPE(object), name, payload, fields);
  Py_XDECREF(fields);
  Py_XDECREF(payload);
  Py_DECREF(make);
  return result;
}

PyObject* range_set_state(PyObject* object, PyObject* state) {
  auto* self = reinterpret_cast<RangeObject*>(object);
  PyObject *name, *payload, *fields;
  if (!PyArg_ParseTuple(state, "OOO:__setstate__", &name, &payload, &fields)) return nullptr;
  if (self->name != nullptr || self->payload != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "__setstate__ is for new objects");
    return nullptr;
  }
  if (name != Py_None && !set_range_name(self, name)) return nullptr;
  if (payload != Py_None) {
    self->payload = new (std::nothrow) RangePayload;
    if (self->payload == nullptr) return PyErr_NoMemory();
    if (!payload_of_state(payload, *self->payload)) return nullptr;
  }
  if (fields != Py_None) {
    PyObject* own = PyObject_GetAttrString(object, "__dict__");
    const bool ok = own != nullptr && PyDict_Update(own, fields) == 0;
    Py_XDECREF(own);
    if (!ok) return nullptr;
  }
  Py_RETURN_NONE;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
