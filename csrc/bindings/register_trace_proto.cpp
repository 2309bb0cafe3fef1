// SPDX-License-Identifier: Apache-2.0
// _core.PacketScanner: the reader of Perfetto's packets (core/trace_proto/packet_scanner.hpp). Not
// thread-safe.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <optional>
#include <string_view>
#include <utility>

#include "adapters/python/gil.hpp"
#include "bindings/column_array.hpp"
#include "bindings/register.hpp"
#include "core/trace_proto/packet_scanner.hpp"
#include "fastprof/base/error.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;
using trace_proto::ClockState;
using trace_proto::Closings;
using trace_proto::OpenSlice;
using trace_proto::PacketBlock;
using trace_proto::PacketScanner;
using trace_proto::Place;
using trace_proto::SequenceState;

using Links = py::typing::Tuple<py::array_t<uint32_t>, py::array_t<uint64_t>, py::array_t<uint8_t>>;
using Ends = py::typing::Tuple<py::array_t<uint32_t>, py::array_t<int64_t>, py::array_t<uint8_t>>;

PacketBlock scan_packets(PacketScanner& scanner, const py::bytes& data, size_t begin,
                         uint32_t first_row, uint64_t max_packet_bytes) {
  std::string_view packets = data;
  if (begin > packets.size()) raise<ValueError>("begin exceeds the data");
  packets.remove_prefix(begin);
  const WithoutGil release;
  return scanner.scan(packets, first_row, max_packet_bytes);
}

void intern(PacketScanner& scanner, uint64_t sequence, uint32_t kind, uint64_t iid,
            std::string_view text) {
  if (kind >= trace_proto::kTextKinds) raise<ValueError>("no such kind of text");
  scanner.intern(sequence, static_cast<trace_proto::TextKind>(kind), iid, text);
}

Ends take_closings(PacketScanner& scanner) {
  Closings closings = std::move(scanner.stacks().closings());
  scanner.stacks().closings() = Closings();
  return py::make_tuple(array_of(std::move(closings.rows)), array_of(std::move(closings.end_ns)),
                        array_of(std::move(closings.finished)));
}

// Returns (key, last ns) of each incremental clock.
py::typing::List<py::typing::Tuple<uint64_t, int64_t>> running_clocks(
    const PacketScanner& scanner) {
  py::typing::List<py::typing::Tuple<uint64_t, int64_t>> found;
  for (const auto& [key, clock] : scanner.clocks())
    if (clock.is_incremental) found.append(py::make_tuple(key, clock.last_ns));
  return found;
}

}  // namespace

void register_trace_proto(py::module_& module) {
  py::class_<PacketBlock, trace_rows::Block>(module, "ScannedPackets",
                                             "Columns of the packets of one buffer.")
      .def(
          "take_links",
          [](PacketBlock& b) -> Links {
            return py::make_tuple(array_of(std::move(b.links.rows)),
                                  array_of(std::move(b.links.ids)),
                                  array_of(std::move(b.links.steps)));
          },
          "(rows of the table, flow ids, steps) of rows that take part in flows.");
  py::class_<PacketScanner>(module, "PacketScanner",
                            "Reads Perfetto's packets; see core/trace_proto/packet_scanner.hpp.")
      .def(py::init<trace_rows::Conventions, bool>(), py::arg("conventions"), py::arg("is_sorted"))
      .def_property_readonly("store",
                             [](PacketScanner& s) -> trace_rows::RowStore& { return s.store(); })
      .def("scan", &scan_packets, py::arg("data"), py::arg("begin"), py::arg("first_row"),
           py::arg("max_packet_bytes"),
           "Scan packets from data[begin], the begin of one. Offsets in the result count from "
           "there.")
      .def("text_code", &PacketScanner::text_code, py::arg("text"))
      .def(
          "set_sequence",
          [](PacketScanner& s, uint64_t id, bool is_valid, uint64_t clock, uint64_t track_uuid,
             int64_t stack, uint32_t track) {
            SequenceState& state = s.sequence(id);
            state.is_valid = is_valid;
            state.clock = clock;
            state.track_uuid = track_uuid;
            state.place = Place{static_cast<uint32_t>(stack), track, stack >= 0};
          },
          py::arg("id"), py::arg("is_valid"), py::arg("clock"), py::arg("track_uuid"),
          py::arg("stack"), py::arg("track"), "stack: -1 if the place is not known yet.")
      .def("forget_texts", [](PacketScanner& s, uint64_t id) { s.sequence(id).forget_texts(); })
      .def("intern", &intern, py::arg("sequence"), py::arg("kind"), py::arg("iid"), py::arg("text"))
      .def("set_location", [](PacketScanner& s, uint64_t sequence, uint64_t iid,
                              uint32_t place) { s.sequence(sequence).locations[iid] = place; })
      .def("set_place",
           [](PacketScanner& s, uint64_t uuid, uint32_t stack, uint32_t track) {
             s.set_place(uuid, Place{stack, track, true});
           })
      .def("set_counter", &PacketScanner::set_counter, py::arg("uuid"), py::arg("name"),
           py::arg("track"))
      .def("forget_counter", &PacketScanner::forget_counter)
      .def(
          "set_clock",
          [](PacketScanner& s, uint64_t key, int64_t unit_ns, bool is_incremental, int64_t last_ns,
             int64_t first_ns, int64_t end_ns, int64_t offset_ns) {
            s.set_clock(key,
                        ClockState{unit_ns, is_incremental, last_ns, first_ns, end_ns, offset_ns});
          },
          py::arg("key"), py::arg("unit_ns"), py::arg("is_incremental"), py::arg("last_ns"),
          py::arg("first_ns"), py::arg("end_ns"), py::arg("offset_ns"))
      .def(
          "clock_ns",
          [](const PacketScanner& s, uint64_t key) -> std::optional<int64_t> {
            const auto found = s.clocks().find(key);
            if (found == s.clocks().end()) return std::nullopt;
            return found->second.last_ns;
          },
          "Return the last time in ns of a clock; None if it is not set.")
      .def("running_clocks", &running_clocks)
      .def("forget_clocks", &PacketScanner::forget_clocks)
      .def("set_own", &PacketScanner::set_own)
      .def(
          "begin_slice",
          [](PacketScanner& s, uint32_t stack, int64_t time_ns, uint32_t row, uint32_t name,
             uint32_t category, bool stays_unfinished) {
            s.stacks().begin(stack, time_ns,
                             OpenSlice{row, name, category, stays_unfinished, time_ns});
          },
          py::arg("stack"), py::arg("time_ns"), py::arg("row"), py::arg("name"),
          py::arg("category"), py::arg("stays_unfinished"))
      .def(
          "end_slice",
          [](PacketScanner& s, uint32_t stack, int64_t time_ns, uint32_t name, uint32_t category,
             uint32_t tag) { return s.stacks().end(stack, time_ns, name, category, tag); },
          py::arg("stack"), py::arg("time_ns"), py::arg("name"), py::arg("category"),
          py::arg("tag"), "Return the row of the slice; -1 if there is none or it is found later.")
      .def("finish_slices", [](PacketScanner& s, int64_t end_ns) { s.stacks().finish(end_ns); })
      .def("take_closings", &take_closings, "(rows, end ns, whether finished), once each.")
      .def_property_readonly("in_order", [](PacketScanner& s) { return s.stacks().in_order(); })
      .def_property_readonly("lost_ends",
                             [](PacketScanner& s) {
                               return std::make_pair(s.stacks().ends_without_begin(),
                                                     s.stacks().lost_ends());
                             })
      .def_property_readonly("tagged",
                             [](PacketScanner& s) {
                               return std::make_pair(s.stacks().tagged(), s.stacks().tagged_rows());
                             })
      .def_property_readonly("bytes", &PacketScanner::bytes);
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
