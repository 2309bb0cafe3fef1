// SPDX-License-Identifier: Apache-2.0
// Recording functions other than ranges: marks, counters, flows, memory reports, thread names.
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/python_name.hpp"
#include "bindings/python_stack.hpp"
#include "bindings/range_entry.hpp"
#include "bindings/range_payload.hpp"
#include "bindings/range_type.hpp"
#include "bindings/register.hpp"
#include "bindings/stack_text.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/primitives/memory_reporting.hpp"
#include "fastprof/recorder/hot_path/range_args.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

constexpr Site python_mark_site = make_site(SiteKind::mark, category::mark, RecordScope::USER_SCOPE,
                                            "<too many names>", "", "", 0);
constexpr CounterSite python_int_counter("<too many names>", "", "", 0, ArgType::int64);
constexpr CounterSite python_float_counter("<too many names>", "", "", 0, ArgType::float64);
constexpr Site python_flow_begin =
    make_site(SiteKind::flow_begin, category::flow, RecordScope::USER_SCOPE, "flow", "", "", 0);
constexpr Site python_flow_end =
    make_site(SiteKind::flow_end, category::flow, RecordScope::USER_SCOPE, "flow", "", "", 0);

const Site* intern_like(NameUse& use, const Site& like, PyObject* name) {
  std::string storage;
  std::string_view bytes;
  return name_bytes(name, storage, bytes) ? session_site(use, like, bytes) : nullptr;
}

PyObject* record_mark(PyObject*, PyObject* name) {
  if (may_record(category::mark)) {
    NameUse use;
    const Site* site = intern_like(use, python_mark_site, name);
    if (site == nullptr) return nullptr;
    record_instant(*site, 0);
  }
  Py_RETURN_NONE;
}

PyObject* record_counter(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "counter() takes two arguments, name and value");
    return nullptr;
  }
  if (!may_record(category::counter)) Py_RETURN_NONE;
  const auto number = py::reinterpret_steal<py::object>(python_number(args[1]));
  if (!number) return nullptr;
  int overflow = 1;
  NameUse use;
  if (PyLong_Check(number.ptr())) {
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow == 0) {
      const Site* site = intern_like(use, python_int_counter.site, args[0]);
      if (site == nullptr) return nullptr;
      record_instant(*site, static_cast<uint64_t>(value));
      Py_RETURN_NONE;
    }
  }
  const double value = PyFloat_AsDouble(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) return nullptr;
  const Site* site = intern_like(use, python_float_counter.site, args[0]);
  if (site == nullptr) return nullptr;
  record_instant(*site, arg_word(value));
  Py_RETURN_NONE;
}

PyObject* record_flow(const Site& like, PyObject* const* args, Py_ssize_t count) {
  if (count < 1 || count > 2) {
    PyErr_SetString(PyExc_TypeError, "a flow takes one or two arguments, id and name");
    return nullptr;
  }
  if (!may_record(category::flow)) Py_RETURN_NONE;
  const unsigned long long id = PyLong_AsUnsignedLongLongMask(args[0]);
  if (id == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) return nullptr;
  NameUse use;
  const Site* site = count == 1 ? &like : intern_like(use, like, args[1]);
  if (site == nullptr) return nullptr;
  record_instant(*site, id);
  Py_RETURN_NONE;
}
PyObject* record_flow_begin(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return record_flow(python_flow_begin, args, count);
}
PyObject* record_flow_end(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return record_flow(python_flow_end, args, count);
}

template <class Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef functions[] = {
    {"mark", record_mark, METH_O,
     "mark(name: str) -> None\n\nRecord an instant on the calling thread."},
    {"counter", as_method(record_counter), METH_FASTCALL,
     "counter(name: str, value: float) -> None\n\nRecord the current value of a counter track. "
     "Any thread."},
    {"flow_begin", as_method(record_flow_begin), METH_FASTCALL,
     "flow_begin(id: int, name: str = 'flow') -> None\n\nRecord the start of the flow arrow `id`. "
     "Any thread."},
    {"flow_end", as_method(record_flow_end), METH_FASTCALL,
     "flow_end(id: int, name: str = 'flow') -> None\n\nRecord the end of the flow arrow `id`. "
     "Any thread."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void register_ranges(py::module_& module) {
  if (!add_open_range_type(module.ptr()) || !add_range_type(module.ptr()) ||
      PyModule_AddFunctions(module.ptr(), functions) != 0)
    throw py::error_already_set();
  module.def(
      "report_memory_usage",
      [](uint64_t ptr, int64_t bytes, uint64_t allocated, uint64_t reserved, int type, int index) {
        report_memory_usage(reinterpret_cast<void*>(static_cast<uintptr_t>(ptr)), bytes, allocated,
                            reserved,
                            Device{static_cast<DeviceType>(type), static_cast<int16_t>(index)});
      },
      py::arg("ptr"), py::arg("alloc_size_bytes"), py::arg("total_allocated_bytes"),
      py::arg("total_reserved_bytes"), py::arg("device_type"), py::arg("device_index"),
      "See fastprof.report_memory_usage.");
  module.def(
      "report_out_of_memory",
      [](int64_t bytes, uint64_t allocated, uint64_t reserved, int type, int index) {
        report_out_of_memory(bytes, allocated, reserved,
                             Device{static_cast<DeviceType>(type), static_cast<int16_t>(index)});
      },
      py::arg("alloc_size_bytes"), py::arg("total_allocated_bytes"),
      py::arg("total_reserved_bytes"), py::arg("device_type"), py::arg("device_index"),
      "See fastprof.report_out_of_memory.");
  module.def(
      "set_thread_name",
      [](const py::str& name) {
        std::string storage;
        std::string_view bytes;
        if (!name_bytes(name.ptr(), storage, bytes)) throw py::error_already_set();
        set_thread_name(bytes);
        mark_thread_named();
      },
      py::arg("name"), "Set the calling thread's name in captures that are read from now on.");
  module.def(
      "leave_out_frames_of",
      [](const py::str& file) {
        std::string storage;
        std::string_view bytes;
        if (!name_bytes(file.ptr(), storage, bytes)) throw py::error_already_set();
        leave_out_frames_of(bytes);
      },
      py::arg("file"),
      "Remove frames of this file from the inner end of recorded stacks (wrappers of decorators).");
  module.def(
      "after_fork_in_child", [] { forget_python_stacks_in_child(); },
      "Discard state that belongs to the parent's sessions.");
  module.def(
      "threads_cpu_ns",
      [](const std::string& prefix) {
        std::vector<uint32_t> tids;
        platform::list_threads(&tids);
        std::vector<std::tuple<uint32_t, std::string, int64_t>> found;
        for (const uint32_t tid : tids) {
          std::string name = platform::thread_name_of(tid);
          int64_t cpu_ns = 0;
          if (name.compare(0, prefix.size(), prefix) == 0 &&
              platform::read_thread_cpu_ns(tid, &cpu_ns))
            found.emplace_back(tid, std::move(name), cpu_ns);
        }
        return found;
      },
      py::arg("prefix"),
      "Return (tid, name, CPU time in ns) of each thread of this process whose name in the kernel "
      "begins so. [] without /proc.");
  module.def(
      "thread_id",
      [] {
        const Track* track = current_track();
        return track == nullptr ? 0u : track->id;
      },
      "Return the calling thread's id in captures (FunctionEvent.thread).");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
