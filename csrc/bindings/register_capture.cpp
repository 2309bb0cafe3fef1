// SPDX-License-Identifier: Apache-2.0
// _core.Capture: columns, sites, tracks and strings of a session, and the trace writers.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/capture_object.hpp"
#include "bindings/python_name.hpp"
#include "bindings/register.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/perfetto_trace.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::sleep_if_ended;
using python_adapter::WithGil;
using python_adapter::WithoutGil;

using TrackTuple =
    py::typing::Tuple<py::int_, py::int_, py::int_, py::str, py::bool_, py::int_, py::str>;

// Returns a read-only array over a vector of the capture, which it keeps alive.
template <class T, class Allocator>
py::array column(const std::shared_ptr<const Capture>& capture,
                 const std::vector<T, Allocator>& values) {
  using Number = typename std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>,
                                             std::common_type<T>>::type;
  auto owner = std::make_unique<std::shared_ptr<const Capture>>(capture);
  py::capsule base(owner.get(),
                   [](void* held) { delete static_cast<std::shared_ptr<const Capture>*>(held); });
  owner.release();
  py::array_t<Number> array({static_cast<py::ssize_t>(values.size())},
                            {static_cast<py::ssize_t>(sizeof(T))},
                            reinterpret_cast<const Number*>(values.data()), base);
  array.attr("flags").attr("writeable") = false;
  return array;
}

py::typing::Dict<py::str, py::array> columns(const CaptureObject& self) {
  const auto& c = self.capture;
  py::typing::Dict<py::str, py::array> all;
  all["start_ns"] = column(c, c->start_ns);
  all["end_ns"] = column(c, c->end_ns);
  all["site"] = column(c, c->site);
  all["track"] = column(c, c->track);
  all["parent"] = column(c, c->parent);
  all["payload"] = column(c, c->payload);
  all["kind"] = column(c, c->kind);
  all["flags"] = column(c, c->flags);
  if (!c->call_line.empty()) all["call_line"] = column(c, c->call_line);
  return all;
}

// Returns one list per field of fastprof.model.sites.Site.
py::typing::Dict<py::str, py::typing::List<py::object>> sites(const CaptureObject& self) {
  const std::vector<SiteInfo>& all = self.capture->sites;
  const auto list = [&all](auto&& value) {
    py::list made(all.size());
    for (size_t i = 0; i < all.size(); ++i) made[i] = value(all[i]);
    return made;
  };
  py::typing::Dict<py::str, py::typing::List<py::object>> fields;
  fields["name"] = list([](const SiteInfo& s) { return str_of(s.name); });
  fields["category"] = list([](const SiteInfo& s) { return str_of(s.category); });
  fields["file"] = list([](const SiteInfo& s) { return str_of(s.file); });
  fields["function"] = list([](const SiteInfo& s) { return str_of(s.function); });
  fields["line"] = list([](const SiteInfo& s) { return py::int_(s.line); });
  fields["color"] = list([](const SiteInfo& s) { return py::int_(s.color); });
  fields["mask"] = list([](const SiteInfo& s) { return py::int_(s.mask); });
  fields["kind"] = list([](const SiteInfo& s) { return py::int_(static_cast<int>(s.kind)); });
  fields["scope"] = list([](const SiteInfo& s) { return py::int_(static_cast<int>(s.scope)); });
  fields["arg_names"] = list([](const SiteInfo& s) {
    py::tuple names(s.arg_names.size());
    for (size_t i = 0; i < s.arg_names.size(); ++i) names[i] = str_of(s.arg_names[i]);
    return names;
  });
  fields["arg_types"] = list([](const SiteInfo& s) {
    py::tuple types(s.arg_types.size());
    for (size_t i = 0; i < s.arg_types.size(); ++i)
      types[i] = py::int_(static_cast<int>(s.arg_types[i]));
    return types;
  });
  fields["device_type"] = list([](const SiteInfo& s) { return py::int_(s.device_type); });
  fields["device_index"] = list([](const SiteInfo& s) { return py::int_(s.device_index); });
  return fields;
}

using LinkColumns = py::typing::Tuple<py::array_t<int64_t>, py::array_t<int64_t>,
                                      py::array_t<int64_t>, py::array_t<int64_t>>;

LinkColumns device_links(const CaptureObject& self) {
  const std::vector<DeviceLink>& links = self.capture->device_links;
  const auto count = static_cast<py::ssize_t>(links.size());
  py::array_t<int64_t> row(count), call(count), range(count), correlation(count);
  int64_t* const columns[] = {row.mutable_data(), call.mutable_data(), range.mutable_data(),
                              correlation.mutable_data()};
  for (size_t i = 0; i < links.size(); ++i) {
    columns[0][i] = links[i].row;
    columns[1][i] = links[i].call;
    columns[2][i] = links[i].range;
    columns[3][i] = links[i].correlation;
  }
  return py::make_tuple(row, call, range, correlation);
}

py::typing::List<TrackTuple> tracks(const CaptureObject& self) {
  py::typing::List<TrackTuple> all;
  for (const TrackInfo& track : self.capture->tracks)
    all.append(py::make_tuple(track.id, track.pid, track.tid, str_of(track.name), track.alive,
                              track.thread_id, str_of(track.device_kind)));
  return all;
}

py::typing::List<py::str> strings(const CaptureObject& self) {
  py::typing::List<py::str> all(self.capture->strings.size());
  for (size_t i = 0; i < self.capture->strings.size(); ++i)
    all[i] = str_of(self.capture->strings[i]);
  return all;
}

py::typing::Dict<py::str, py::int_> dropped(const CaptureObject& self) {
  py::typing::Dict<py::str, py::int_> causes;
  for_each_drop_cause(self.capture->dropped, [&](DropCause cause, uint64_t count) {
    causes[drop_cause_name(cause)] = count;
  });
  return causes;
}

// Member names may contain lone surrogates, as file names do.
std::string bytes_of(const py::str& text) {
  std::string storage;
  std::string_view bytes;
  if (!name_bytes(text.ptr(), storage, bytes)) throw py::error_already_set();
  return std::string(bytes);
}

std::vector<std::pair<std::string, std::string>> members_of(
    const std::vector<std::pair<py::str, std::string>>& metadata) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const auto& [name, json] : metadata) members.emplace_back(bytes_of(name), json);
  return members;
}

ChromeTraceOptions chrome_options(const std::vector<std::pair<py::str, std::string>>& metadata,
                                  const py::str& trace_name) {
  ChromeTraceOptions options;
  options.metadata = members_of(metadata);
  options.trace_name = bytes_of(trace_name);
  return options;
}

using ProgressCall = py::typing::Callable<py::object(py::int_)>;

// Adapts a Python function to TraceProgress. An exception it raises cancels the write and is raised
// by run().
class PythonProgress {
 public:
  PythonProgress(const std::optional<ProgressCall>& call, TraceProgress& progress) : call_(call) {
    if (call_) progress = {&PythonProgress::report, this};
  }
  PythonProgress(const PythonProgress&) = delete;
  PythonProgress& operator=(const PythonProgress&) = delete;

  // Calls `write` without the GIL.
  template <class Write>
  uint64_t run(const Write& write) {
    try {
      const WithoutGil release;
      return write();
    } catch (const IoError&) {
      if (raised_) std::rethrow_exception(raised_);
      throw;
    }
  }

 private:
  static bool report(void* self, uint64_t bytes) {
    auto* adapter = static_cast<PythonProgress*>(self);
    const WithGil acquire;
    try {
      const py::int_ number(bytes);
      PyObject* result =
          sleep_if_ended([&] { return PyObject_CallOneArg(adapter->call_->ptr(), number.ptr()); });
      if (result == nullptr) throw py::error_already_set();
      Py_DECREF(result);
      return true;
    } catch (...) {
      adapter->raised_ = std::current_exception();
      return false;
    }
  }

  const std::optional<ProgressCall>& call_;
  std::exception_ptr raised_;
};

}  // namespace

void register_capture(py::module_& module) {
  py::class_<CaptureObject>(module, "Capture",
                            "The records of one session; see capture/capture.hpp.")
      .def("__len__", [](const CaptureObject& self) { return self.capture->size(); })
      .def("columns", &columns,
           "Return the columns by name: read-only arrays that share the capture's memory.")
      .def("sites", &sites, "Return one list per field of fastprof.model.sites.Site.")
      .def("tracks", &tracks,
           "Return (id, pid, tid, name, alive, thread_id, device_kind) of each track.")
      .def("strings", &strings, "Return the table that string arguments index.")
      .def("payload_words",
           [](const CaptureObject& self) {
             return column(self.capture, self.capture->payload_words);
           })
      .def("cross_thread_end_row",
           [](const CaptureObject& self) {
             return column(self.capture, self.capture->cross_thread_end_row);
           })
      .def("cross_thread_end_track",
           [](const CaptureObject& self) {
             return column(self.capture, self.capture->cross_thread_end_track);
           })
      .def(
          "device_links", &device_links,
          "Return (row, call, range, correlation) of each row of a device or its runtime, as int64 "
          "arrays: the row of the call that started it and of the range that made the call, -1 for "
          "none.")
      .def("dropped", &dropped, "Return the number of missing events by cause.")
      .def_property_readonly("t0_ns", [](const CaptureObject& self) { return self.capture->t0_ns; })
      .def_property_readonly("t1_ns", [](const CaptureObject& self) { return self.capture->t1_ns; })
      .def_property_readonly("clock_error_ns",
                             [](const CaptureObject& self) { return self.capture->clock_error_ns; })
      .def_property_readonly("exact_stop",
                             [](const CaptureObject& self) { return self.capture->exact_stop; })
      .def_property_readonly(
          "open_ranges", [](const CaptureObject& self) { return self.capture->open_ranges(); },
          "Number of ranges that had not ended at the stop.")
      .def_property_readonly("pid", [](const CaptureObject& self) { return self.capture->pid; })
      .def_property_readonly(
          "node_id", [](const CaptureObject& self) { return self.capture->node_id; },
          "Node id of rows that have none of their own; -1 if unset.")
      .def_property_readonly(
          "process_name",
          [](const CaptureObject& self) { return str_of(self.capture->process_name); })
      .def_property_readonly("counter_names",
                             [](const CaptureObject& self) { return self.capture->counter_names; })
      .def(
          "write_chrome_trace",
          [](const CaptureObject& self, const py::bytes& path,
             const std::vector<std::pair<py::str, std::string>>& metadata,
             const py::str& trace_name, const std::optional<ProgressCall>& progress,
             const std::optional<bool>& event_ids, bool call_stacks) {
            const std::string file = path;
            ChromeTraceOptions options = chrome_options(metadata, trace_name);
            if (event_ids)
              options.event_ids = *event_ids ? ChromeTraceOptions::KinetoPart::always
                                             : ChromeTraceOptions::KinetoPart::never;
            options.call_stacks = call_stacks;
            PythonProgress reported(progress, options.progress);
            return reported.run([&] { return write_chrome_trace(*self.capture, file, options); });
          },
          py::arg("path"), py::arg("metadata"), py::arg("trace_name"),
          py::arg("progress") = py::none(), py::arg("event_ids") = py::none(),
          py::arg("call_stacks") = false,
          "Write Chrome JSON; return the number of bytes. path: as returned by os.fsencode. "
          "progress: called with the number of bytes written so far; an exception that it raises "
          "cancels the export. event_ids: whether to write Kineto's event ids; None: if the "
          "capture contains ops. call_stacks: whether calls have \"Python thread\" and \"Call "
          "stack\".")
      .def(
          "write_perfetto_trace",
          [](const CaptureObject& self, const py::bytes& path,
             const std::vector<std::pair<py::str, std::string>>& metadata,
             const std::optional<ProgressCall>& progress) {
            const std::string file = path;
            PerfettoTraceOptions options;
            options.metadata = members_of(metadata);
            PythonProgress reported(progress, options.progress);
            return reported.run([&] { return write_perfetto_trace(*self.capture, file, options); });
          },
          py::arg("path"), py::arg("metadata"), py::arg("progress") = py::none(),
          "Write a trace in Perfetto's protobuf format; return the number of bytes. path, "
          "metadata, "
          "progress: as in write_chrome_trace.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
