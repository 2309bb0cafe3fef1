// SPDX-License-Identifier: Apache-2.0
// _core's device backends, collections of their activities, and activity files.
#include <pybind11/stl.h>

#include <memory>

#include "adapters/python/gil.hpp"
#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/cupti_library.hpp"
#include "backends/cuda/device_properties.hpp"
#include "backends/cuda/event_backend.hpp"
#include "backends/cuda/event_stubs.hpp"
#include "backends/plugin/plugin_backend.hpp"
#include "backends/rocm/rocm_device.hpp"
#include "bindings/device_collection.hpp"
#include "bindings/device_sink.hpp"
#include "bindings/register.hpp"
#include "core/activity_file.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

using python_adapter::WithoutGil;

void register_devices(py::module_& module) {
  const py::call_guard<WithoutGil> without_gil;
  module.def(
      "register_cuda",
      [](std::vector<std::string> libraries) {
        devices::register_cuda_backend(std::move(libraries));
      },
      py::arg("libraries"), without_gil,
      "Register the backend \"CUDA\"; the first call counts. libraries: paths at which libcupti "
      "may "
      "lie. Loads nothing. Any thread.");
  module.def(
      "load_cupti",
      [](const std::vector<std::string>& libraries) {
        std::string problem;
        cupti::load_cupti(libraries, problem);
        return problem;
      },
      py::arg("libraries"), without_gil,
      "Load libcupti, once in a process, and call nothing in it but its version. libraries: paths "
      "at which it may lie; the first call counts. Return why there is none, else an empty text. "
      "Any thread.");
  module.def(
      "cuda_members", &cupti::device_members, py::arg("libraries"), without_gil,
      "Return (name, JSON text) of a trace's members that say which GPUs and libraries of NVIDIA's "
      "there are. libraries: as for load_cupti. Any thread.");
  module.def(
      "register_cuda_events",
      [](const std::vector<std::string>& libraries) {
        devices::register_event_backend(cuda::cuda_runtime(), libraries);
        cuda::register_event_stubs(cuda::cuda_runtime(), libraries);
      },
      py::arg("libraries"), without_gil,
      "Register the backend \"CUDA events\", and the exclusive profiler's support of CUDA unless "
      "there is one. libraries: paths at which libcudart may lie; the first call counts. Loads "
      "nothing. Any thread.");
  module.def(
      "register_rocm",
      [](std::vector<std::string> rocprofiler, const std::vector<std::string>& hip) {
        const fastprof_device_plugin& device = rocm::rocm_device(std::move(rocprofiler));
        if (devices::find_backend(device.name) == nullptr)
          devices::register_backend(new plugins::PluginBackend(device, ""));  // of the process
        devices::register_event_backend(cuda::hip_runtime(), hip);
        cuda::register_event_stubs(cuda::hip_runtime(), hip);
      },
      py::arg("rocprofiler"), py::arg("hip"), without_gil,
      "Register the backends \"ROCm\" and \"HIP events\", and the exclusive profiler's support of "
      "CUDA unless there is one. rocprofiler, hip: paths at which librocprofiler-sdk and "
      "libamdhip64 "
      "may lie; the first call counts. Loads nothing. Any thread.");
  module.def(
      "rocm_members", &rocm::rocm_members, without_gil,
      "Return (name, JSON text) of a trace's members that say which GPUs and versions of AMD's "
      "there are. Any thread.");
  module.def(
      "device_problem", [](const std::string& name) { return backend_of(name).problem(); },
      py::arg("name"), without_gil,
      "Return why a backend cannot collect here, empty if it can; errors.ValueError for an unknown "
      "one. May load libraries. Any thread.");
  py::class_<DeviceCollection>(
      module, "DeviceCollection",
      "A backend's collection, open from the constructor to end(). Use from one thread at a time.")
      .def(py::init<const std::string&, const std::vector<std::string>&, bool>(), py::arg("name"),
           py::arg("types"), py::arg("shares_tool") = false, without_gil,
           "Begin. types: of traces (\"kernel\", ...). shares_tool: use the device's tool although "
           "another client holds it, which must not be recording. errors.UnavailableError if that "
           "is impossible now, errors.ValueError for an unknown backend.")
      .def("end", &DeviceCollection::end, without_gil,
           "Wait for the device, end, and return what failed. No effect when called again.")
      .def("collect_so_far", &DeviceCollection::collect_so_far, without_gil,
           "Take what was completed since the begin or the last call, which end() does not return "
           "then, and return what went wrong. Does not wait for the device. Nothing for backends "
           "that know their activities at the end alone, and when ended.")
      .def("is_full", &DeviceCollection::is_full, without_gil,
           "Return whether activities are lost because the memory for them is full; False when "
           "ended.")
      .def("abandon", &DeviceCollection::abandon, without_gil,
           "End without reading what was collected. No effect when ended.");
  using devices::ActivityFileWriter;
  py::class_<ActivityFileWriter>(
      module, "ActivityFile",
      "A file for device activities, next to a backing file. Use from one thread at a time.")
      .def(py::init([](const py::bytes& path) {
             return std::make_unique<ActivityFileWriter>(std::string(path));
           }),
           py::arg("path"), "Create the file. errors.IoError if it exists or cannot be made.")
      .def(
          "add_activities",
          [](ActivityFileWriter& self, DeviceCollection& collection) {
            self.add(collection.name(), collection.take());
          },
          py::arg("collection"), without_gil,
          "Append the activities of a collection, so that they survive the process.")
      .def(
          "add_sink",
          [](ActivityFileWriter& self, DeviceSink& sink) { self.add(sink.name(), sink.take()); },
          py::arg("sink"), without_gil, "Append the activities of a finished sink.")
      .def("finish", &ActivityFileWriter::finish, without_gil,
           "Append the end mark and close the file. No effect when called again.")
      .def_property_readonly("problem", &ActivityFileWriter::problem,
                             "Why parts are missing; empty if none are.");
  module.def(
      "activity_file_ended",
      [](const py::bytes& path) { return devices::activity_file_ended(std::string(path)); },
      py::arg("path"),
      "Return whether the writer of a file has said that nothing follows. False if it cannot be "
      "read.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
