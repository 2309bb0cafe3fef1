// SPDX-License-Identifier: Apache-2.0
// _core's device plug-ins: loading libraries, and DeviceSink, to which devices implemented in
// Python report.
#include <dirent.h>
#include <fcntl.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/python/gil.hpp"
#include "backends/plugin/plugin_library.hpp"
#include "bindings/device_sink.hpp"
#include "bindings/register.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

using Words = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;

// A column, or one value for all rows.
template <class Type>
class Given {
 public:
  Given(const py::object& value, size_t rows, const char* name)
      : values_(py::array_t<Type, py::array::c_style | py::array::forcecast>::ensure(value)) {
    if (!values_) {
      PyErr_Clear();
      raise<ValueError>(std::string(name) + " must be a number or an array of numbers");
    }
    const auto size = static_cast<size_t>(values_.size());
    if (size != 1 && size != rows)
      raise<ValueError>(std::string(name) + " has " + std::to_string(size) + " values, but begin " +
                        std::to_string(rows));
    step_ = size == 1 ? 0 : 1;
  }
  Type operator[](size_t row) const { return values_.data()[row * step_]; }

 private:
  py::array_t<Type, py::array::c_style | py::array::forcecast> values_;
  size_t step_ = 0;
};

size_t add_columns(DeviceSink& self, const py::object& kind, const py::object& place,
                   const Words& begin, const Words& end, const py::object& correlation,
                   const py::object& text, const py::object& arguments) {
  const auto rows = static_cast<size_t>(begin.size());
  if (static_cast<size_t>(end.size()) != rows)
    raise<ValueError>("end has " + std::to_string(end.size()) + " values, but begin " +
                      std::to_string(rows));
  const Given<uint32_t> kinds(kind, rows, "kind"), places(place, rows, "place"),
      correlations(correlation, rows, "correlation"), texts(text, rows, "text");
  // One row of words per activity; a double is passed by its bits (.view("uint64")).
  Words words;
  size_t width = 0;
  if (!arguments.is_none()) {
    words = Words::ensure(arguments);
    if (!words || words.ndim() != 2 || static_cast<size_t>(words.shape(0)) != rows) {
      PyErr_Clear();
      raise<ValueError>("arguments must be an array of uint64 with a row for each activity");
    }
    width = static_cast<size_t>(words.shape(1));
  }
  size_t accepted = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (self.arguments_of(kinds[row]) > width)
      raise<ValueError>("activity " + std::to_string(row) + " lacks arguments of its kind");
    fastprof_activity activity = {};
    activity.begin = begin.data()[row];
    activity.end = end.data()[row];
    activity.correlation = correlations[row];
    activity.kind = kinds[row];
    activity.place = places[row];
    activity.text = texts[row];
    activity.arguments = width != 0 ? words.data() + row * width : nullptr;
    accepted += self.builder().add(activity) ? 1 : 0;
  }
  return accepted;
}

constexpr size_t kMostEntryPointsBytes = 1 << 20;

bool ends_with(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Whether the entry points of a package that is installed in the folder contain the text. What
// cannot be read has none.
bool folder_mentions(const std::string& folder, const std::string& text) {
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) return false;
  bool found = false;
  std::string bytes;
  while (const dirent* entry = found ? nullptr : ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (!ends_with(name, ".dist-info") && !ends_with(name, ".egg-info")) continue;
    const int file = ::openat(
        ::dirfd(listing), (name + "/entry_points.txt").c_str(),
        O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // else a pipe of that name waits for its writer
    if (file < 0) continue;
    bytes.resize(kMostEntryPointsBytes);
    const ssize_t size = ::read(file, &bytes[0], bytes.size());
    ::close(file);
    found = size > 0 && std::string_view(bytes.data(), static_cast<size_t>(size)).find(text) !=
                            std::string_view::npos;
  }
  ::closedir(listing);
  return found;
}

}  // namespace

void register_device_plugins(py::module_& module) {
  const py::call_guard<WithoutGil> without_gil;
  module.def(
      "load_device_plugin",
      [](const std::string& path) -> py::typing::Tuple<py::str, py::int_, py::bool_> {
        const plugins::LoadedPlugin* loaded;
        {
          const WithoutGil release;
          loaded = &plugins::load_plugin(path);
        }
        return py::make_tuple(loaded->name, loaded->device_type, loaded->has_stubs);
      },
      py::arg("path"),
      "Load a library that exports fastprof_device_plugin_open, check its plug-in and register its "
      "backend. Return its name, its device type (PyTorch's number) and whether it has stubs. "
      "errors.UnavailableError or errors.ValueError, with the reason, if it is refused. Any "
      "thread.");
  module.def(
      "packages_mention",
      [](const std::vector<py::bytes>& folders, const std::string& text) {
        const std::vector<std::string> paths(folders.begin(), folders.end());
        const WithoutGil release;
        return std::any_of(paths.begin(), paths.end(), [&text](const std::string& folder) {
          return folder_mentions(folder, text);
        });
      },
      py::arg("folders"), py::arg("text"),
      "Return whether a package that is installed in one of the folders has a file "
      "entry_points.txt whose first MiB contains the text. Any thread.");
  module.def("select_device_stubs", &plugins::select_stubs, py::arg("name"), without_gil,
             "Make the stubs of a plug-in those of the exclusive profiler's state PRIVATEUSE1; "
             "errors.UnavailableError if it has none.");
  module.def(
      "device_clock",
      [](const py::object& read) -> py::typing::Tuple<py::int_, py::int_> {
        const ClockReading reading = read_both_clocks(
            [&read] { return read.is_none() ? ticks(state()) : read().cast<uint64_t>(); });
        return py::make_tuple(reading.theirs, reading.ticks);
      },
      py::arg("read"),
      "Return a reading of a clock, a callable without arguments (None: the recorder's own), and "
      "one of the recorder's clock, made at the same time.");
  py::class_<DeviceSink>(module, "DeviceSink",
                         "Receives the activities of one collection of a device of Python. Invalid "
                         "ones are left out, counted and reported. Use from one thread at a time.")
      .def(py::init<std::string, int32_t, const std::vector<std::string>&>(),
           py::arg("device_kind"), py::arg("device_type"), py::arg("types"),
           "device_kind: name of the device. types: the requested types of traces.")
      .def("queue", &DeviceSink::queue, py::arg("device"), py::arg("number"), py::arg("name") = "",
           "Return the index of a queue of a device; 2**32 - 1 if it is invalid.")
      .def("thread", &DeviceSink::thread, py::arg("thread_id"),
           "Return the index of a thread of this process, by threading.get_native_id().")
      .def("kind", &DeviceSink::kind, py::arg("name"), py::arg("type"),
           py::arg("arguments") = std::vector<std::pair<std::string, int>>(),
           "Return the index of a kind of activities. type and the types of arguments: "
           "numbers of fastprof/device_plugin.h.")
      .def("text", &DeviceSink::text, py::arg("json"),
           "Return the index of further arguments, a JSON object; 2**32 - 1 for any other text.")
      .def("add", &add_columns, py::arg("kind"), py::arg("place"), py::arg("begin"), py::arg("end"),
           py::arg("correlation") = 0, py::arg("text") = FASTPROF_NO_INDEX,
           py::arg("arguments") = py::none(),
           "Add activities, one for each value of begin and end (uint64, stamps of the device's "
           "clock); the other columns may be one value for all. arguments: a row of uint64 words "
           "for "
           "each. Return how many were accepted. errors.ValueError for columns that do not fit.")
      .def("dropped", &DeviceSink::dropped, py::arg("count"),
           "Count activities that the device had no room for.")
      .def("problem", &DeviceSink::problem, py::arg("text"),
           "Report something that is missing in the profile, and why.")
      .def(
          "finish", &DeviceSink::finish, py::arg("begin"), py::arg("end"), py::arg("device_begin"),
          py::arg("device_end"), py::arg("hz"),
          "End: convert stamps by readings of device_clock(), of time.monotonic_ns() for calls and "
          "of the device's clock of hz Hz for work. Return what failed; errors.ValueError unless "
          "hz > 0.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
