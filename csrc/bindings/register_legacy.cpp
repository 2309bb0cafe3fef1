// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler and the default node id; exposed to users as fastprof.profiler_legacy.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/python_stack.hpp"
#include "bindings/register.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/legacy/device_times.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// Result of a profiler run. Immutable; owns device events created by a plug-in.
struct LegacyEvents {
  LegacyEventLists lists;
};

// Returns the fields of fastprof.LegacyRecord, in its order.
py::typing::Tuple<py::object, py::ellipsis> record_fields(const LegacyEvent& event,
                                                          DeviceTimes& times) {
  const bool has_device = event.has_device_event();
  const std::optional<int64_t> device_us =
      has_device ? std::optional<int64_t>(times.device_us(event)) : std::nullopt;
  return py::make_tuple(legacy_event_kind_name(event.kind), py::bytes(event.name), event.thread_id,
                        event.handle, event.node_id, event.cpu_ns, event.is_remote, event.is_async,
                        event.cpu_memory_bytes, event.device_memory_bytes,
                        has_device ? event.device_index : -1, device_us, event.sequence_nr,
                        event.forward_thread_id, static_cast<int>(event.scope), event.flops,
                        event.shapes, event.stack);
}

using RecordLists = py::typing::List<py::typing::List<py::typing::Tuple<py::object, py::ellipsis>>>;

RecordLists record_lists(const LegacyEvents& self) {
  RecordLists lists;
  DeviceTimes times;
  for (const LegacyEventList& events : self.lists) {
    py::typing::List<py::typing::Tuple<py::object, py::ellipsis>> records;
    for (const LegacyEvent& event : events) records.append(record_fields(event, times));
    lists.append(records);
  }
  return lists;
}

void enable(int state, bool record_shapes, bool profile_memory, bool with_stack, bool with_flops,
            bool with_modules, const std::string& trace_id) {
  if (state < 0 || state >= static_cast<int>(kNumProfilerStates))
    raise<ValueError>("unknown ProfilerState " + std::to_string(state));
  ProfilerConfig config(static_cast<ProfilerState>(state));
  config.report_input_shapes = record_shapes;
  config.profile_memory = profile_memory;
  config.with_stack = with_stack;
  config.with_flops = with_flops;
  config.with_modules = with_modules;
  config.trace_id = trace_id;
  if (with_stack && stack_provider() == nullptr) set_stack_provider(&append_python_stack);
  enable_profiler(config);
}

std::string_view view_of(const py::bytes& bytes) {
  return static_cast<std::string_view>(bytes);
}

}  // namespace

void register_legacy(py::module_& module) {
  py::class_<LegacyEvents>(module, "LegacyEvents",
                           "The records of a run of the exclusive profiler: one list of events "
                           "per thread, then the remote lists.")
      .def("records", &record_lists,
           "Return lists of events as fields of fastprof.LegacyRecord; names are bytes.")
      .def(
          "encode",
          [](const LegacyEvents& self) { return py::bytes(encode_event_lists(self.lists)); },
          "Serialise the events for another process, in the format of "
          "csrc/include/fastprof/legacy/event_bytes.hpp.")
      .def(
          "json", [](const LegacyEvents& self) { return event_lists_json(self.lists); },
          "Return all fields of all records as JSON.")
      .def_static(
          "decode",
          [](const py::bytes& bytes) { return LegacyEvents{decode_event_lists(view_of(bytes))}; },
          py::arg("bytes"),
          "Return the events that encode() serialised, marked as remote. Raises errors.FormatError "
          "with the offset of the first invalid byte.");
  module.def("legacy_enable", &enable, py::kw_only(), py::arg("state"), py::arg("record_shapes"),
             py::arg("profile_memory"), py::arg("with_stack"), py::arg("with_flops"),
             py::arg("with_modules"), py::arg("trace_id") = "",
             "Start the exclusive profiler of this thread. Raises errors.StateError if it already "
             "runs and errors.UnavailableError if the state's device support is missing.");
  module.def(
      "legacy_disable",
      [](bool cleanup_tls_state, bool consolidate) {
        ProfilerDisableOptions options;
        options.cleanup_tls_state = cleanup_tls_state;
        options.consolidate = consolidate;
        return LegacyEvents{disable_profiler(options)};
      },
      py::arg("cleanup_tls_state") = true, py::arg("consolidate") = true,
      "Stop this thread's exclusive profiler; return its records. Raises errors.StateError if none "
      "runs.");
  module.def(
      "legacy_state_missing",
      [](int state) -> std::string {
        try {
          require_device_stubs(static_cast<ProfilerState>(state));
          return {};
        } catch (const UnavailableError& error) {
          return error.what();
        }
      },
      py::arg("state"), "Return why a state cannot be enabled; empty if it can.");
  module.def(
      "legacy_mark",
      [](const std::string& name, bool include_device) { mark(name, include_device); },
      py::arg("name"), py::arg("include_device") = true,
      "Record an instant with this thread's exclusive profiler; no effect if none runs.");
  module.def(
      "add_remote_events", [](const py::bytes& bytes) { add_remote_events(view_of(bytes)); },
      py::arg("bytes"), "See fastprof.profiler_legacy.add_remote_events.");
  module.def(
      "set_default_node_id", [](int64_t node_id) { set_default_node_id(node_id); },
      py::arg("node_id"), "See fastprof.set_default_node_id.");
  module.def("default_node_id", &default_node_id,
             "Return the node number of this process in a distributed program; -1 until set. "
             "Any thread.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
