// SPDX-License-Identifier: Apache-2.0
// capture_of: makes a Capture from columns given by Python, so that the trace writers can write
// tables read from files. The writers validate it before using its columns as indices.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/capture_object.hpp"
#include "bindings/register.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/link_device_rows.hpp"
#include "fastprof/capture/merge_captures.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/leader/attach.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

template <class T, class Vector>
void fill(Vector& to, const py::dict& columns, const char* name) {
  if (!columns.contains(name)) raise<ValueError>(std::string("the column ") + name + " is missing");
  const auto array =
      py::array_t<T, py::array::c_style | py::array::forcecast>::ensure(columns[name]);
  if (!array || array.ndim() != 1)
    raise<ValueError>(std::string("the column ") + name + " is not a one-dimensional array");
  to.resize(static_cast<size_t>(array.size()));
  static_assert(sizeof(typename Vector::value_type) == sizeof(T));
  if (!to.empty()) std::memcpy(static_cast<void*>(to.data()), array.data(), to.size() * sizeof(T));
}

// Encodes as UTF-8; lone surrogates become three bytes each.
std::string bytes_of(const py::handle& value) {
  const auto bytes = py::reinterpret_steal<py::bytes>(
      PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogatepass"));
  if (!bytes) throw py::error_already_set();
  return bytes;
}

SiteInfo site_of(const py::tuple& row) {
  if (row.size() != 13) raise<ValueError>("a site must have the 13 fields of fastprof.Site");
  SiteInfo site;
  site.name = bytes_of(row[0]);
  site.category = bytes_of(row[1]);
  site.file = bytes_of(row[2]);
  site.function = bytes_of(row[3]);
  site.line = row[4].cast<uint32_t>();
  site.color = row[5].cast<uint32_t>();
  site.mask = row[6].cast<uint32_t>();
  const auto kind = row[7].cast<uint32_t>(), scope = row[8].cast<uint32_t>();
  if (kind > static_cast<uint32_t>(EventKind::session_membership))
    raise<ValueError>("unknown kind " + std::to_string(kind) + " of a site");
  if (scope >= kNumRecordScopes)
    raise<ValueError>("unknown scope " + std::to_string(scope) + " of a site");
  site.kind = static_cast<EventKind>(kind);
  site.scope = static_cast<RecordScope>(scope);
  for (const py::handle name : row[9].cast<py::tuple>()) site.arg_names.push_back(bytes_of(name));
  for (const py::handle item : row[10].cast<py::tuple>()) {
    const auto type = item.cast<uint32_t>();
    if (type > static_cast<uint32_t>(ArgType::pointer))
      raise<ValueError>("unknown type " + std::to_string(type) + " of an argument");
    site.arg_types.push_back(static_cast<ArgType>(type));
  }
  site.device_type = row[11].cast<int16_t>();
  site.device_index = row[12].cast<int16_t>();
  return site;
}

// Containers are declared as plain objects, so that type checkers accept the signature.
CaptureObject capture_of(const py::object& given_columns, const py::object& sites,
                         const py::object& tracks, const py::object& strings, int64_t t0_ns,
                         int64_t t1_ns, int64_t clock_error_ns, int64_t pid,
                         const py::str& process_name, const py::object& given_dropped,
                         std::vector<std::string> counter_names, const py::object& process_names) {
  const auto columns = given_columns.cast<py::dict>();
  const auto dropped = given_dropped.cast<py::dict>();
  auto capture = std::make_shared<Capture>();
  fill<int64_t>(capture->start_ns, columns, "start_ns");
  fill<int64_t>(capture->end_ns, columns, "end_ns");
  fill<uint32_t>(capture->site, columns, "site");
  fill<uint32_t>(capture->track, columns, "track");
  fill<int32_t>(capture->parent, columns, "parent");
  fill<uint32_t>(capture->payload, columns, "payload");
  fill<uint8_t>(capture->kind, columns, "kind");
  fill<uint8_t>(capture->flags, columns, "flags");
  if (columns.contains("call_line")) fill<uint16_t>(capture->call_line, columns, "call_line");
  fill<uint64_t>(capture->payload_words, columns, "payload_words");
  fill<uint32_t>(capture->cross_thread_end_row, columns, "cross_thread_end_row");
  fill<uint32_t>(capture->cross_thread_end_track, columns, "cross_thread_end_track");
  for (const py::handle site : sites) capture->sites.push_back(site_of(site.cast<py::tuple>()));
  for (const py::handle item : tracks) {
    const auto row = item.cast<py::tuple>();
    if (row.size() < 5 || row.size() > 7)
      raise<ValueError>("a track must have the 7 fields of fastprof.Track, the last two optional");
    TrackInfo track;
    track.id = static_cast<uint32_t>(row[0].cast<int64_t>());
    track.pid = row[1].cast<int64_t>();
    track.tid = row[2].cast<int64_t>();
    track.name = bytes_of(row[3]);
    track.alive = row[4].cast<bool>();
    if (row.size() > 5) track.thread_id = row[5].cast<int64_t>();
    if (row.size() > 6) track.device_kind = bytes_of(row[6]);
    capture->tracks.push_back(std::move(track));
  }
  for (const py::handle text : strings) capture->strings.push_back(bytes_of(text));
  capture->t0_ns = t0_ns;
  capture->t1_ns = t1_ns;
  capture->clock_error_ns = clock_error_ns;
  capture->pid = pid;
  capture->counter_names = std::move(counter_names);
  capture->process_name = bytes_of(process_name);
  for (const auto item : process_names.cast<py::dict>())
    capture->process_names.emplace_back(item.first.cast<int64_t>(), bytes_of(item.second));
  for (size_t i = 0; i < kMaxDropCauses; ++i) {
    const char* name = drop_cause_name(static_cast<DropCause>(i));
    if (dropped.contains(name)) capture->dropped[i] = dropped[name].cast<uint64_t>();
  }
  validate_capture(*capture);
  for (size_t row = 0; row < capture->size(); ++row) {
    const SiteInfo& site = capture->sites[capture->site[row]];
    if (site.mask == category::device && site.device_index >= 0)
      capture->tracks[capture->track[row]].device_index = site.device_index;
  }
  link_device_rows(*capture);
  return CaptureObject{std::move(capture)};
}

// Containers are declared as plain objects, so that type checkers accept the signature.
CaptureObject merge(const py::object& parts) {
  std::vector<CapturePart> all;
  std::vector<std::shared_ptr<const Capture>> held;
  for (const py::handle item : parts) {
    const auto row = item.cast<py::tuple>();
    if (row.size() != 4)
      raise<ValueError>("a part must have a capture, a shift, the end of open ranges and a name");
    held.push_back(row[0].cast<const CaptureObject&>().capture);
    CapturePart part;
    part.capture = held.back().get();
    part.shift_ns = row[1].cast<int64_t>();
    if (!row[2].is_none()) part.open_until_ns = row[2].cast<int64_t>();
    part.name = bytes_of(row[3]);
    all.push_back(std::move(part));
  }
  const WithoutGil release;
  return CaptureObject{std::make_shared<Capture>(merge_captures(all))};
}

}  // namespace

void register_table_capture(py::module_& module) {
  module.def(
      "capture_of", &capture_of, py::kw_only(), py::arg("columns"), py::arg("sites"),
      py::arg("tracks"), py::arg("strings"), py::arg("t0_ns"), py::arg("t1_ns"),
      py::arg("clock_error_ns"), py::arg("pid"), py::arg("process_name"), py::arg("dropped"),
      py::arg("counter_names") = std::vector<std::string>(), py::arg("process_names") = py::dict(),
      "Return a Capture with copies of the columns; capture/capture.hpp states the requirements. "
      "Raises ValueError if one is not met.");
  module.def("merge_captures", &merge, py::arg("parts"),
             "Return the rows of several processes as one Capture. parts: tuples of a Capture, the "
             "ns added to its times, the time until which its open ranges last (None: as recorded) "
             "and the name of its process. See capture/merge_captures.hpp.");
  module.def(
      "libraries_of_other_abi", &libraries_of_other_abi,
      "Return the paths of loaded objects built with another major ABI of fastprof; \"\" is the "
      "executable.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
