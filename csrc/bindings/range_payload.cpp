// SPDX-License-Identifier: Apache-2.0
// Arguments of Python ranges: see range_payload.hpp.
#include "bindings/range_payload.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "bindings/python_name.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/names/insert_names.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

uint64_t double_word(double value) noexcept {
  uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

// Appends a plain value as JSON; `written` is false for other types. Returns false with an error
// set.
bool append_json(std::string& out, PyObject* given, bool& written) {
  const auto plain = pybind11::reinterpret_steal<pybind11::object>(python_number(given));
  if (!plain) return false;
  PyObject* const value = plain.ptr();
  written = true;
  if (PyBool_Check(value)) {
    out += value == Py_True ? "true" : "false";
    return true;
  }
  if (PyFloat_Check(value)) {
    append_json_double(out, PyFloat_AS_DOUBLE(value));
    return true;
  }
  if (PyLong_Check(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) {
      if (number == -1 && PyErr_Occurred() != nullptr) return false;
      append_json_int(out, number);
      return true;
    }
    PyObject* text = PyNumber_ToBase(value, 10);
    if (text == nullptr) return false;
    std::string storage;
    std::string_view bytes;
    const bool ok = name_bytes(text, storage, bytes);
    if (ok) append_json_string(out, bytes);
    Py_DECREF(text);
    return ok;
  }
  if (PyUnicode_Check(value)) {
    std::string storage;
    std::string_view bytes;
    if (!name_bytes(value, storage, bytes)) return false;
    append_json_string(out, bytes);
    return true;
  }
  written = false;
  return true;
}

// Appends a list or tuple of plain values as JSON; `written` is false if it contains other types.
bool append_json_list(std::string& out, PyObject* list, bool& written) {
  out += '[';
  written = true;
  // The length is read in each iteration, because converting an item may run code.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list) && written; ++i) {
    if (i > 0) out += ',';
    PyObject* item = PySequence_Fast_GET_ITEM(list, i);
    Py_INCREF(item);
    const bool ok = append_json(out, item, written);
    Py_DECREF(item);
    if (!ok) return false;
  }
  out += ']';
  return true;
}

bool add_word(RangePayload& payload, const char* name, ArgType type, uint64_t word) {
  payload.arguments.push_back({name, type, word, {}});
  return true;
}

}  // namespace

PyObject* python_number(PyObject* value) {
  constexpr std::string_view numpy = "numpy.";
  if (!PyLong_Check(value) && !PyFloat_Check(value) && !PyUnicode_Check(value)) {
    std::string_view type = Py_TYPE(value)->tp_name;
    if (type.substr(0, numpy.size()) == numpy) {
      type.remove_prefix(numpy.size());
      if (type.substr(0, 4) == "bool") return PyBool_FromLong(PyObject_IsTrue(value));
      if (type.substr(0, 3) == "int" || type.substr(0, 4) == "uint" || type == "longlong" ||
          type == "ulonglong")
        return PyNumber_Index(value);
      if (type.substr(0, 5) == "float" || type == "longdouble") return PyNumber_Float(value);
    }
  }
  Py_INCREF(value);
  return value;
}

bool add_value(RangePayload& payload, PyObject* name, PyObject* given) {
  const auto plain = pybind11::reinterpret_steal<pybind11::object>(python_number(given));
  if (!plain) return false;
  PyObject* const value = plain.ptr();
  std::string storage;
  std::string_view key;
  if (!name_bytes(name, storage, key)) return false;
  if (payload.arguments.size() < kMaxArgs) {
    if (PyBool_Check(value))
      return add_word(payload, intern_string(key), ArgType::boolean, value == Py_True ? 1 : 0);
    if (PyFloat_Check(value))
      return add_word(payload, intern_string(key), ArgType::float64,
                      double_word(PyFloat_AS_DOUBLE(value)));
    if (PyLong_Check(value)) {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
      if (overflow == 0) {
        if (number == -1 && PyErr_Occurred() != nullptr) return false;
        return add_word(payload, intern_string(key), ArgType::int64, static_cast<uint64_t>(number));
      }
    }
    if (PyUnicode_Check(value)) {
      std::string text_storage;
      std::string_view text;
      if (!name_bytes(value, text_storage, text)) return false;
      payload.arguments.push_back({intern_string(key), ArgType::string, 0, std::string(text)});
      return true;
    }
  }
  std::string json;
  bool written = false;
  const bool is_list = PyList_Check(value) || PyTuple_Check(value);
  if (is_list ? !append_json_list(json, value, written) : !append_json(json, value, written))
    return false;
  if (written) payload.members.emplace_back(std::string(key), std::move(json));
  return true;
}

bool add_shapes(RangePayload& payload, PyObject* shapes) {
  if (shapes == nullptr || shapes == Py_None) return true;
  PyObject* list =
      PySequence_Fast(shapes, "shapes must be a list of lists of int, one per argument");
  if (list == nullptr) return false;
  std::string json = "[";
  bool ok = true;
  for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(list); ++i) {
    if (i > 0) json += ',';
    PyObject* shape = PySequence_Fast(PySequence_Fast_GET_ITEM(list, i),
                                      "shapes must be a list of lists of int, one per argument");
    if (shape == nullptr) {
      ok = false;
      break;
    }
    json += '[';
    for (Py_ssize_t k = 0; ok && k < PySequence_Fast_GET_SIZE(shape); ++k) {
      const Py_ssize_t extent =
          PyNumber_AsSsize_t(PySequence_Fast_GET_ITEM(shape, k), PyExc_OverflowError);
      ok = extent != -1 || PyErr_Occurred() == nullptr;
      if (k > 0) json += ',';
      append_json_int(json, static_cast<int64_t>(extent));
    }
    json += ']';
    Py_DECREF(shape);
  }
  Py_DECREF(list);
  if (ok) payload.members.emplace_back("Input Dims", json + ']');
  return ok;
}

bool add_flops(RangePayload& payload, PyObject* flops) {
  if (flops == nullptr || flops == Py_None) return true;
  const double value = PyFloat_AsDouble(flops);
  if (value == -1 && PyErr_Occurred() != nullptr) return false;
  return add_word(payload, intern_string("flops"), ArgType::float64, double_word(value));
}

bool add_node_id(RangePayload& payload, PyObject* node_id) {
  if (node_id == nullptr || node_id == Py_None) return true;
  const long long value = PyLong_AsLongLong(node_id);
  if (value == -1 && PyErr_Occurred() != nullptr) return false;
  payload.node_id = value;
  return true;
}

void seal_payload(NameUse& use, RangePayload& payload) {
  State* s = state();
  if (!use.begin(s) || payload.sealed.current(s)) return;
  payload.sealed.renew(s);
  for (RangePayload::Argument& argument : payload.arguments) {
    if (argument.type != ArgType::string) continue;
    argument.word =
        static_cast<uint64_t>(reinterpret_cast<uintptr_t>(session_string(use, argument.text)));
  }
  if (payload.members.empty()) return;
  std::string text = "{";
  for (const auto& [name, value] : payload.members) {
    if (text.size() > 1) text += ',';
    append_json_string(text, name);
    text += ':';
    text += value;
  }
  text += '}';
  // Truncated text would be invalid JSON.
  if (text.size() > s->max_name_length) {
    count_name(s, category::all);
    text = "{\"arguments left out\":\"" + std::to_string(text.size()) + " bytes\"}";
  }
  payload.json = session_string(use, text);
  if (payload.json[0] != '{') {  // bound reached and counted; the next begin retries
    payload.json = nullptr;
    payload.sealed = NameAge{};
  }
}

namespace {

// A prototype site with an argument layout. Never freed, because records refer to it.
struct Layout {
  const char* names[kMaxArgs];
  ArgType types[kMaxArgs];
  Site site;
};

const Layout* layout_of(const RangePayload& payload, const Site& like) {
  static std::mutex& lock = *new std::mutex;
  static auto& layouts = *new std::map<std::string, const Layout*>;
  std::string key{static_cast<char>(like.scope), static_cast<char>(like.kind)};
  for (const RangePayload::Argument& argument : payload.arguments) {
    key.append(reinterpret_cast<const char*>(&argument.name), sizeof argument.name);
    key += static_cast<char>(argument.type);
  }
  const std::lock_guard<std::mutex> hold(lock);
  const Layout*& known = layouts[key];
  if (known == nullptr) {
    auto* made = new Layout{};
    made->site = like;
    made->site.arg_count = static_cast<uint8_t>(payload.arguments.size());
    made->site.arg_units = static_cast<uint8_t>((payload.arguments.size() + 2) / 3);
    made->site.arg_names = made->names;
    made->site.arg_types = made->types;
    for (size_t i = 0; i < payload.arguments.size(); ++i) {
      made->names[i] = payload.arguments[i].name;
      made->types[i] = payload.arguments[i].type;
    }
    known = made;
  }
  return known;
}

}  // namespace

const Site* site_with_layout(NameUse& use, PyObject* name, const RangePayload& payload,
                             const Site& like) {
  if (payload.arguments.empty() && &like == &python_range_site) return site_of_name(use, name);
  std::string storage;
  std::string_view bytes;
  if (!name_bytes(name, storage, bytes)) return nullptr;
  return session_site(use, payload.arguments.empty() ? like : layout_of(payload, like)->site,
                      bytes);
}

std::vector<NamedValue> named_values(const RangePayload& payload) {
  std::vector<NamedValue> values;
  for (const RangePayload::Argument& argument : payload.arguments) {
    Value value;
    switch (argument.type) {
      case ArgType::boolean:
        value = Value(argument.word != 0);
        break;
      case ArgType::float64: {
        double number;
        std::memcpy(&number, &argument.word, sizeof number);
        value = Value(number);
        break;
      }
      case ArgType::string:
        value = Value(std::string_view(argument.text));
        break;
      default:
        value = Value(static_cast<int64_t>(argument.word));
        break;
    }
    values.push_back({argument.name, std::move(value)});
  }
  return values;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
