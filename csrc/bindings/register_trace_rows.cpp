// SPDX-License-Identifier: Apache-2.0
// RowStore and ScannedEvents: rows of the native readers of traces (core/trace_rows/row_store.hpp);
// TraceScanner: the reader of Chrome traces' events. One thread at a time may scan; args_text() may
// be called from any thread once scanning is over.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/column_array.hpp"
#include "bindings/register.hpp"
#include "core/trace_json/event_scanner.hpp"
#include "core/trace_rows/row_store.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;
using trace_json::EventScanner;
using trace_rows::Block;
using trace_rows::Conventions;
using trace_rows::RowStore;
using trace_rows::SparseColumn;

using Pair = py::typing::Tuple<py::array_t<uint32_t>, py::array_t<int64_t>>;

Pair pair_of(SparseColumn& column) {
  return py::make_tuple(array_of(std::move(column.rows)), array_of(std::move(column.values)));
}

Conventions make_conventions(std::vector<std::string> numbers, std::vector<std::string> lists,
                             std::vector<std::string> texts, std::vector<std::string> states,
                             std::string engine_prefix, std::string op_category,
                             uint32_t forward_thread, int64_t other_pid) {
  if (states.size() > 16 || forward_thread >= numbers.size())
    raise<ValueError>("at most 16 states; forward_thread is an index of numbers");
  return Conventions{
      std::move(numbers),       std::move(lists),       std::move(texts), std::move(states),
      std::move(engine_prefix), std::move(op_category), forward_thread,   other_pid};
}

Block scan_events(EventScanner& scanner, const py::bytes& data, size_t begin, bool after_value) {
  std::string_view text = data;
  if (begin > text.size()) raise<ValueError>("begin exceeds the data");
  text.remove_prefix(begin);
  const WithoutGil release;
  return scanner.scan(text, after_value);
}

py::bytes bytes_of(std::string_view text) {
  return py::bytes(text.data(), text.size());
}

void check(size_t code, size_t size) {
  if (code >= size) raise<ValueError>("no such code: " + std::to_string(code));
}

using SiteRow = py::typing::Tuple<uint32_t, uint32_t, std::string, int, uint32_t, uint32_t>;

SiteRow site_in_store(const RowStore& store, uint32_t code) {
  check(code, store.sites().size());
  const trace_rows::ScannedSite& site = store.sites()[code];
  return py::make_tuple(site.name, site.category, std::string(1, site.phase),
                        static_cast<int>(site.scope), site.state, site.place);
}

}  // namespace

void register_trace_rows(py::module_& module) {
  py::class_<Block>(module, "ScannedEvents",
                    "Columns of the events of one buffer; each can be taken once.")
      .def_property_readonly("consumed", [](const Block& b) { return b.consumed; })
      .def_property_readonly("events", [](const Block& b) { return b.events; })
      .def_property_readonly(
          "stop", [](const Block& b) { return static_cast<int>(b.stop); },
          "0: the buffer ends; 1: the last of `others` must be interpreted "
          "before scanning on; 2: what follows is not readable here.")
      .def_property_readonly("rows", [](const Block& b) { return b.start_ns.size(); })
      .def("take_start_ns", [](Block& b) { return array_of(std::move(b.start_ns)); })
      .def("take_end_ns", [](Block& b) { return array_of(std::move(b.end_ns)); })
      .def("take_site", [](Block& b) { return array_of(std::move(b.site)); })
      .def("take_track", [](Block& b) { return array_of(std::move(b.track)); })
      .def("take_args", [](Block& b) { return array_of(std::move(b.args)); })
      .def("take_flow", [](Block& b) { return pair_of(b.flow); })
      .def(
          "take_sparse",
          [](Block& b) {
            std::vector<Pair> columns;
            for (SparseColumn& column : b.sparse) columns.push_back(pair_of(column));
            return columns;
          },
          "(rows, values) of each known arg: numbers, then codes of lists and texts.")
      .def(
          "others",
          [](const Block& b) {
            py::typing::List<py::typing::Tuple<size_t, size_t, uint32_t, uint32_t>> found;
            for (const trace_rows::OtherEvent& other : b.others)
              found.append(py::make_tuple(other.begin, other.end, other.rows, other.events));
            return found;
          },
          "(begin, end, rows before it, events before it) of events left to the caller.");
  py::class_<Conventions>(module, "TraceConventions",
                          "Conventions of traces; see core/trace_rows/row_store.hpp.")
      .def(py::init(&make_conventions), py::kw_only(), py::arg("numbers"), py::arg("lists"),
           py::arg("texts"), py::arg("states"), py::arg("engine_prefix"), py::arg("op_category"),
           py::arg("forward_thread"), py::arg("other_pid"));
  py::class_<RowStore>(module, "RowStore",
                       "Interned names, sites, tracks and args; see core/trace_rows/row_store.hpp.")
      .def("add_backward",
           [](RowStore& s, const py::bytes& name) { s.add_backward(std::string_view(name)); })
      .def_property_readonly("backward_names", [](const RowStore& s) { return s.backward_names(); })
      .def("text",
           [](const RowStore& s, uint32_t code) {
             check(code, s.texts());
             return bytes_of(s.text(code));
           })
      .def_property_readonly("texts", &RowStore::texts)
      .def("site", &site_in_store, "Return (name, category, phase, scope, state, place).")
      .def_property_readonly("sites", [](const RowStore& s) { return s.sites().size(); })
      .def("track",
           [](const RowStore& s, uint32_t code) {
             check(code, s.tracks());
             const uint64_t* const ids = s.track(code);
             return std::make_pair(static_cast<int64_t>(ids[0]), static_cast<int64_t>(ids[1]));
           })
      .def_property_readonly("tracks", &RowStore::tracks)
      .def_property_readonly("args", &RowStore::args)
      .def("args_text",
           [](const RowStore& s, uint32_t code) {
             check(code, s.args());
             return bytes_of(s.args_text(code));
           })
      .def_property_readonly("bytes", &RowStore::bytes);
  py::class_<EventScanner>(module, "TraceScanner",
                           "Reads events of Chrome traces; see core/trace_json/event_scanner.hpp.")
      .def(py::init<Conventions>(), py::arg("conventions"))
      .def_property_readonly("store", [](EventScanner& s) -> RowStore& { return s.store(); })
      .def("scan", &scan_events, py::arg("data"), py::arg("begin"), py::arg("after_value"),
           "Scan events from data[begin], the begin of a value or (after_value) of the comma after "
           "one. Offsets in the result count from there.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
