// SPDX-License-Identifier: Apache-2.0
// _core.Session: start and stop without the GIL.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "bindings/capture_object.hpp"
#include "bindings/device_collection.hpp"
#include "bindings/device_sink.hpp"
#include "bindings/python_name.hpp"
#include "bindings/python_stack.hpp"
#include "bindings/register.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

class SessionObject {
 public:
  SessionObject(uint32_t categories, bool thread_local_only, uint64_t max_bytes, int overflow,
                bool include_open, bool python_stacks, bool native_frames,
                std::vector<std::string> counters, uint64_t max_name_bytes, bool record_shapes,
                const py::bytes& spill_folder, const py::bytes& backing_file,
                bool keep_backing_file,
                std::vector<std::pair<std::string, std::string>> backing_metadata)
      : python_stacks_(python_stacks), native_frames_(python_stacks && native_frames) {
    if (overflow < 0 || overflow > static_cast<int>(OverflowPolicy::spill_to_file))
      raise<ValueError>("unknown overflow policy " + std::to_string(overflow));
    SessionOptions options;
    options.categories = categories;
    options.thread_local_only = thread_local_only;
    options.max_bytes = max_bytes;
    options.max_name_bytes = max_name_bytes;
    options.overflow = static_cast<OverflowPolicy>(overflow);
    options.include_open = include_open;
    options.counters = std::move(counters);
    options.record_shapes = record_shapes;
    options.joined_stacks = native_frames_;
    options.spill_folder = std::string(spill_folder);
    options.backing_file = std::string(backing_file);
    options.keep_backing_file = keep_backing_file;
    options.backing_metadata = std::move(backing_metadata);
    session_ = std::make_unique<Session>(options);
  }
  ~SessionObject() {
    release_stacks();
    const WithoutGil release;
    session_.reset();
  }
  SessionObject(const SessionObject&) = delete;
  SessionObject& operator=(const SessionObject&) = delete;

  void start() {
    // Before the first range: other threads record as soon as the session starts, while this one
    // may still wait for the GIL. A session that already runs holds its own count.
    const bool holds = python_stacks_ && !holds_stacks_;
    if (holds) {
      want_python_stacks(native_frames_);
      holds_stacks_ = true;
    }
    try {
      const WithoutGil release;
      session_->start();
      capture_.reset();
      is_raw_ = false;
    } catch (...) {
      if (holds) release_stacks();
      throw;
    }
    if (python_stacks_ && session_->backing_report().opened) write_stacks_to_file();
  }

  void warm_up() {
    const WithoutGil release;
    session_->warm_up();
  }

  // names: thread names by kernel thread id, for tracks that have only the process's name. A second
  // stop() returns the same capture, because an interrupt may have discarded the first result.
  // After std::bad_alloc it goes on: the records are kept until they are read, and then the capture
  // is.
  CaptureObject stop(const py::typing::Dict<py::int_, py::str>& names, const py::str& program) {
    if (capture_ == nullptr || session_->running()) {
      auto capture = std::make_shared<Capture>();
      try {
        const WithoutGil release;
        const std::lock_guard<std::mutex> hold(reading_);
        session_->stop();
        *capture = session_->take_capture();
      } catch (...) {
        if (!session_->running()) release_stacks();
        throw;
      }
      capture_ = std::move(capture);
      is_raw_ = true;
    }
    if (is_raw_) {
      if (native_frames_) {
        const WithoutGil release;
        resolve_frames_of_stacks();
      }
      name_tracks(*capture_, names);
      name_process(*capture_, program);
      resolve_python_stacks(*capture_, holds_stacks_);
      release_stacks();
      is_raw_ = false;
    }
    return CaptureObject{capture_};
  }

  // Another thread may stop the session meanwhile, which waits.
  CaptureObject capture_so_far(const py::typing::Dict<py::int_, py::str>& names,
                               const py::str& program) {
    auto capture = std::make_shared<Capture>();
    {
      const WithoutGil release;
      const std::lock_guard<std::mutex> hold(reading_);
      *capture = session_->capture_so_far();
      if (native_frames_) resolve_frames_of_stacks();
    }
    name_tracks(*capture, names);
    name_process(*capture, program);
    resolve_python_stacks(*capture, holds_stacks_);
    return CaptureObject{std::move(capture)};
  }

  void abandon() {
    release_stacks();
    const WithoutGil release;
    const std::lock_guard<std::mutex> hold(reading_);
    session_->abandon();
  }

  // Adds the activities of an ended collection to the capture of the next stop().
  void add_activities(DeviceCollection& collection) {
    const WithoutGil release;
    session_->add_activities(collection.take());
  }

  // Adds the activities of a finished sink to the capture of the next stop().
  void add_sink(DeviceSink& sink) {
    const WithoutGil release;
    session_->add_activities(sink.take());
  }

  // For the reader of the backing file; no effect if the session has none.
  void add_backing_metadata(const std::string& key, const std::string& value) {
    const WithoutGil release;
    session_->add_backing_metadata(key, value);
  }

  bool running() const noexcept { return session_->running(); }
  bool has_capture() const noexcept { return capture_ != nullptr; }

  std::string spill_error() const {
    const int error = session_->spill_error();
    return error == 0 ? std::string() : std::strerror(error);
  }
  std::string backing_problem() const { return session_->backing_report().problem; }

 private:
  static void name_tracks(Capture& capture, const py::typing::Dict<py::int_, py::str>& names) {
    for (TrackInfo& track : capture.tracks) {
      const py::int_ tid(track.tid);
      if (!track.alive || track.name != capture.process_name || !names.contains(tid)) continue;
      std::string storage;
      std::string_view bytes;
      if (name_bytes(py::object(names[tid]).ptr(), storage, bytes)) track.name = bytes;
      // Without memory for the name, the track keeps the process's name.
      else
        PyErr_Clear();
    }
  }

  // Keeps a name that is not the interpreter's: the program has set it, or embeds the interpreter.
  static void name_process(Capture& capture, const py::str& program) {
    const std::string& own = capture.process_name;
    if (own.rfind("python", 0) != 0 && own.rfind("fastprof", 0) != 0) return;
    std::string storage;
    std::string_view bytes;
    if (!name_bytes(program.ptr(), storage, bytes))
      PyErr_Clear();
    else if (!bytes.empty())
      capture.process_name = bytes;
  }

  void release_stacks() {
    if (std::exchange(holds_stacks_, false)) release_python_stacks(native_frames_);
  }

  std::unique_ptr<Session> session_;
  std::mutex reading_;  // taken without the GIL: capture_so_far() on one thread, an end on another
  std::shared_ptr<Capture> capture_;  // result of the last stop
  bool is_raw_ = false;               // it lacks names and stacks
  bool python_stacks_;
  bool native_frames_;
  bool holds_stacks_ = false;
};

}  // namespace

void register_session(py::module_& module) {
  register_capture(module);
  py::class_<SessionObject>(module, "Session", "A recording session; see session/session.hpp.")
      .def(py::init<uint32_t, bool, uint64_t, int, bool, bool, bool, std::vector<std::string>,
                    uint64_t, bool, const py::bytes&, const py::bytes&, bool,
                    std::vector<std::pair<std::string, std::string>>>(),
           py::kw_only(), py::arg("categories") = category::all,
           py::arg("thread_local_only") = false, py::arg("max_bytes") = 0, py::arg("overflow") = 0,
           py::arg("include_open") = false, py::arg("python_stacks") = false,
           py::arg("native_frames") = false, py::arg("counters") = std::vector<std::string>(),
           py::arg("max_name_bytes") = 0, py::arg("record_shapes") = false,
           py::arg("spill_folder") = py::bytes(""), py::arg("backing_file") = py::bytes(""),
           py::arg("keep_backing_file") = false,
           py::arg("backing_metadata") = std::vector<std::pair<std::string, std::string>>())
      .def("start", &SessionObject::start)
      .def("warm_up", &SessionObject::warm_up,
           "Fault in memory for 32 MB of records, or max_bytes if that is less.")
      .def("stop", &SessionObject::stop, py::arg("thread_names"), py::arg("program") = "",
           "Stop and return the capture; later calls return the same one. thread_names: names by "
           "kernel thread id, for threads without a name of their own. program: name of the "
           "process; empty: the kernel's. Raises StateError if the "
           "session was never started.")
      .def(
          "capture_so_far", &SessionObject::capture_so_far, py::arg("thread_names"),
          py::arg("program") = "",
          "Return a capture of what has been recorded so far, while recording goes on. Any thread. "
          "Raises StateError if the session does not run, or spills.")
      .def("abandon", &SessionObject::abandon,
           "End without reading what was recorded. No effect unless it runs.")
      .def("add_activities", &SessionObject::add_activities, py::arg("collection"),
           "Add the activities of an ended collection to the next stop(); once per kind of device. "
           "errors.StateError if the session does not run.")
      .def("add_sink", &SessionObject::add_sink, py::arg("sink"),
           "Add the activities of a finished sink to the next stop(). errors.StateError if the "
           "session "
           "does not run.")
      .def("add_backing_metadata", &SessionObject::add_backing_metadata, py::arg("key"),
           py::arg("value"),
           "Store a fact about the process for readers of the backing file; of equal keys, the "
           "last value "
           "counts. No effect without a backing file.")
      .def_property_readonly("running", &SessionObject::running)
      .def_property_readonly("has_capture", &SessionObject::has_capture,
                             "Whether stop() has returned a capture.")
      .def_property_readonly(
          "spill_error", &SessionObject::spill_error,
          "Why writing the spill file of the last stopped session failed; empty if it did not.")
      .def_property_readonly("backing_problem", &SessionObject::backing_problem,
                             "Why records are missing from the backing file: known at start() if "
                             "there was no room for it, else after stop(). Empty if none are.");
  module.def(
      "counters_missing",
      [](const std::vector<std::string>& names) { return probe_counters(names).reason; },
      py::arg("names"),
      "Return why these perf counters cannot be read together on this thread; empty if they can.");
  module.def(
      "now_ns", [] { return platform::monotonic_ns() + state()->unix_offset_ns; },
      "Return the current time in the clock of captures: Unix ns, monotonic. Valid after the first "
      "session has started.");
  module.def(
      "unix_offset_ns", [] { return state()->unix_offset_ns; },
      "Return what the clock of captures adds to CLOCK_MONOTONIC. Valid as now_ns() is.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
