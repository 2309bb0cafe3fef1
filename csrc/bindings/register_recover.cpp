// SPDX-License-Identifier: Apache-2.0
// _core.recover(): reads a backing file as a Capture and facts about the process.
#include <fcntl.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/capture_object.hpp"
#include "bindings/python_name.hpp"
#include "bindings/register.hpp"
#include "core/activity_file.hpp"
#include "fastprof/recover.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

using Facts = py::typing::Dict<py::str, py::object>;

using Metadata = std::vector<std::pair<std::string, std::string>>;

py::typing::Dict<py::str, py::str> dict_of(const Metadata& metadata) {
  py::typing::Dict<py::str, py::str> dict;
  for (const auto& [key, value] : metadata)
    if (key != "counters") dict[str_of(key)] = str_of(value);
  return dict;
}

py::typing::Dict<py::str, py::str> metadata_of_file(const py::bytes& path) {
  const std::string file = path;
  Metadata found;
  {
    const WithoutGil release;
    found = BackingReader(file, RecoverOptions().max_bytes).metadata();
  }
  return dict_of(found);
}

// Reads the header alone, so that it may be called often.
py::typing::Tuple<uint64_t, uint64_t> shortage_of_file(const py::bytes& path) {
  const std::string file = path;
  BackingHeader header{};
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool complete = fd >= 0 && platform::read_at(fd, 0, &header, sizeof header);
  if (fd >= 0) ::close(fd);
  if (!complete) raise<IoError>("cannot read " + file + ": choose an existing backing file");
  return py::make_tuple(uint64_t{header.fallback_slabs}, uint64_t{header.names_lost});
}

py::typing::Tuple<CaptureObject, Facts> recover_file(const py::bytes& path, uint64_t session_id,
                                                     uint64_t max_bytes,
                                                     const py::bytes& activities) {
  RecoverOptions options;
  options.session_id = session_id;
  if (max_bytes != 0) options.max_bytes = max_bytes;
  const std::string file = path, activity_path = activities;
  Recovered found;
  devices::ActivityFile of_devices;
  {
    const WithoutGil release;
    if (!activity_path.empty()) {
      of_devices = devices::read_activity_file(activity_path, options.max_bytes);
      options.activities = std::move(of_devices.of_backends);
    }
    found = recover(file, options);
  }
  Facts facts;
  facts["session"] = found.session_id;
  facts["ended"] = found.ended;
  facts["open_ranges"] = found.open_ranges;
  facts["unread_chunks"] = found.unread_chunks;
  facts["unknown_texts"] = found.unknown_texts;
  facts["python_stacks"] = found.python_stacks;
  facts["damaged"] = found.damaged;
  facts["names_lost"] = found.names_lost;
  facts["fallback_slabs"] = found.fallback_slabs;
  facts["threads_outside"] = found.threads_outside;
  facts["parent_pid"] = found.parent_pid;
  facts["process_start"] = found.process_start;
  facts["opened_monotonic_ns"] = found.opened_monotonic_ns;
  facts["unix_offset_ns"] = found.unix_offset_ns;
  facts["boot_id"] = str_of(found.boot_id);
  facts["activities_ended"] = of_devices.ended;
  facts["activities_damaged"] = of_devices.damaged_bytes;
  facts["metadata"] = dict_of(found.metadata);
  return py::make_tuple(CaptureObject{std::make_shared<Capture>(std::move(found.capture))}, facts);
}

py::typing::Tuple<uint64_t, uint64_t> copy_file(const py::bytes& from, const py::bytes& to,
                                                const Metadata& metadata, int64_t newest_ns) {
  const std::string source = from, copy = to;
  BackingCopy done;
  {
    const WithoutGil release;
    done = copy_backing_file(source, copy, metadata, newest_ns);
  }
  return py::make_tuple(done.written_bytes, done.left_out);
}

}  // namespace

void register_recover(py::module_& module) {
  module.def(
      "recover", &recover_file, py::arg("path"), py::arg("session_id") = 0,
      py::arg("max_bytes") = 0, py::arg("activities") = py::bytes(),
      "Read a session's backing file. Return the Capture and facts about the process and about "
      "missing records. session_id 0: the session that requested the file; max_bytes 0: 16 "
      "GB. activities: path of the process's activity file; empty: none. errors.IoError, "
      "errors.FormatError if a file cannot be read.");
  module.def("backing_file_metadata", &metadata_of_file, py::arg("path"),
             "Return what a process wrote about itself into its backing file, without its records. "
             "errors.IoError, errors.FormatError.");
  module.def("backing_file_shortage", &shortage_of_file, py::arg("path"),
             "Return how many slabs of 2 MB and names a process could not put into its backing "
             "file, for want of room, until now. errors.IoError.");
  module.def("copy_backing_file", &copy_file, py::arg("path"), py::arg("to"),
             py::arg("metadata") = Metadata(), py::arg("newest_ns") = 0,
             "Copy a backing file, whose process may be writing it, to the new file `to`, and add "
             "metadata to it. newest_ns: without chunks that were full so long ago; 0: all. Return "
             "(bytes written, chunks left out because one was handed on meanwhile). "
             "errors.IoError, errors.FormatError.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
