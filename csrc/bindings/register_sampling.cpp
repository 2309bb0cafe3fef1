// SPDX-License-Identifier: Apache-2.0
// _core.StackSampler: one profile's sampling of Python stacks, or that of another process.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/python/gil.hpp"
#include "adapters/python/running_loops.hpp"
#include "adapters/python/stack_sampler.hpp"
#include "bindings/column_array.hpp"
#include "bindings/hold.hpp"
#include "bindings/native_frames.hpp"
#include "bindings/register.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/recorder/state/own_state.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

uint64_t g_sampling_forks = 0;  // in this process's ancestry

template <class T, class Rows, class Read>
py::array_t<T> column(const Rows& rows, Read read) {
  py::array_t<T> values(static_cast<py::ssize_t>(rows.size()));
  T* to = values.mutable_data();
  for (const auto& row : rows) *to++ = static_cast<T>(read(row));
  return values;
}

py::str text(const std::string& utf8) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace"));
}

// Members of Interpreter and of its Layout by the names that Python code has for them.
constexpr std::pair<const char*, uintptr_t python_adapter::Interpreter::*> kAddresses[] = {
    {"state", &python_adapter::Interpreter::state},
    {"threads_head", &python_adapter::Interpreter::threads_head},
    {"gil_holder", &python_adapter::Interpreter::gil_holder},
    {"code_type", &python_adapter::Interpreter::code_type},
    {"text_type", &python_adapter::Interpreter::text_type},
    {"bytes_type", &python_adapter::Interpreter::bytes_type},
    {"none", &python_adapter::Interpreter::none},
    {"runtime", &python_adapter::Interpreter::runtime},
};
constexpr std::pair<const char*, size_t python_adapter::Layout::*> kOffsets[] = {
    {"minor", &python_adapter::Layout::minor},
    {"next", &python_adapter::Layout::next},
    {"interpreter", &python_adapter::Layout::interpreter},
    {"id", &python_adapter::Layout::id},
    {"kernel_id", &python_adapter::Layout::kernel_id},
    {"frame", &python_adapter::Layout::frame},
    {"stack_chunk", &python_adapter::Layout::stack_chunk},
    {"gil_word", &python_adapter::Layout::gil_word},
    {"raised", &python_adapter::Layout::raised},
    {"exception_info", &python_adapter::Layout::exception_info},
    {"previous_item", &python_adapter::Layout::previous_item},
    {"frame_code", &python_adapter::Layout::frame_code},
    {"frame_previous", &python_adapter::Layout::frame_previous},
    {"frame_instruction", &python_adapter::Layout::frame_instruction},
    {"frame_owner", &python_adapter::Layout::frame_owner},
    {"frame_bytes", &python_adapter::Layout::frame_bytes},
    {"code_name", &python_adapter::Layout::code_name},
    {"code_file", &python_adapter::Layout::code_file},
    {"code_first_line", &python_adapter::Layout::code_first_line},
    {"code_lines", &python_adapter::Layout::code_lines},
    {"code_constants", &python_adapter::Layout::code_constants},
    {"code_first_traceable", &python_adapter::Layout::code_first_traceable},
    {"code_head_bytes", &python_adapter::Layout::code_head_bytes},
    {"object_type", &python_adapter::Layout::object_type},
    {"object_size", &python_adapter::Layout::object_size},
    {"text_length", &python_adapter::Layout::text_length},
    {"text_state", &python_adapter::Layout::text_state},
    {"text_kind_shift", &python_adapter::Layout::text_kind_shift},
    {"ascii_bytes", &python_adapter::Layout::ascii_bytes},
    {"compact_bytes", &python_adapter::Layout::compact_bytes},
    {"bytes_data", &python_adapter::Layout::bytes_data},
};

// Returns the interpreter of another process. Raises KeyError if an address or offset is missing.
python_adapter::Interpreter interpreter_of(int pid,
                                           const std::map<std::string, uint64_t>& addresses,
                                           const std::map<std::string, uint64_t>& offsets) {
  python_adapter::Interpreter found;
  found.pid = pid;
  found.is_own = false;
  const auto value = [](const std::map<std::string, uint64_t>& values, const char* name) {
    const auto at = values.find(name);
    if (at == values.end()) throw py::key_error(name);
    return at->second;
  };
  for (const auto& [name, member] : kAddresses) found.*member = value(addresses, name);
  found.runtime_bytes = value(addresses, "runtime_bytes");
  if (offsets.empty()) {
    found.layout = python_adapter::own_layout();
    return found;
  }
  for (const auto& [name, member] : kOffsets) found.layout.*member = value(offsets, name);
  found.layout.gil_mask = static_cast<uint32_t>(value(offsets, "gil_mask"));
  if (found.layout.frame_bytes > python_adapter::kMaxFrameBytes) throw py::key_error("frame_bytes");
  return found;
}

class StackSampler {
 public:
  StackSampler(double hz, uint64_t max_runs, int pid, int memory,
               const std::map<std::string, uint64_t>& addresses,
               const std::map<std::string, uint64_t>& offsets)
      : sampler_(new python_adapter::StackSampler(hz, max_runs,
                                                  interpreter_of(pid, addresses, offsets), memory)),
        is_native_(false) {}
  StackSampler(double hz, uint64_t max_runs, bool native)
      : sampler_(
            new python_adapter::StackSampler(hz, max_runs, native ? &native_frame_kind : nullptr)),
        is_native_(native) {
    if (!native) return;
    find_own_code();
    resolve_native_frames({});  // reads which libraries are loaded
  }
  StackSampler(const StackSampler&) = delete;
  StackSampler& operator=(const StackSampler&) = delete;
  ~StackSampler() {
    end();
    if (forks_ == g_sampling_forks) delete sampler_;  // else its thread may have held the lock
  }

  std::string begin() {
    if (hold_.active()) return {};
    std::string problem = sampler_->begin(state()->unix_offset_ns);
    if (problem.empty()) hold_.set();
    return problem;
  }
  std::string write_to(const std::string& path, size_t file_bytes, double seconds, bool grows) {
    return sampler_->write_to(path, file_bytes, seconds, grows);
  }
  std::string native_problem() const { return sampler_->native_problem(); }
  void end() {
    if (!hold_.clear()) return;
    const python_adapter::WithoutGil released;
    sampler_->end();
  }
  void name_thread(uint32_t tid, const std::string& name, bool ends) {
    if (hold_.active()) sampler_->name_thread(tid, name, ends);
  }
  bool is_over() const noexcept { return sampler_->is_over(); }
  bool active() const noexcept { return hold_.active(); }

  py::typing::Dict<py::str, py::array> columns() {
    using python_adapter::SampledThread;
    using python_adapter::SampleRun;
    using python_adapter::StackNode;
    const auto& runs = sampler_->runs();
    py::typing::Dict<py::str, py::array> found;
    found["first_ns"] = column<int64_t>(runs, [](const SampleRun& r) { return r.first_ns; });
    found["last_ns"] = column<int64_t>(runs, [](const SampleRun& r) { return r.last_ns; });
    found["thread"] = column<uint32_t>(runs, [](const SampleRun& r) { return r.thread; });
    found["node"] = column<int32_t>(runs, [](const SampleRun& r) { return r.node; });
    found["count"] = column<uint32_t>(runs, [](const SampleRun& r) { return r.count; });
    found["state"] = column<uint8_t>(runs, [](const SampleRun& r) { return r.state; });
    const auto& nodes = sampler_->nodes();
    found["parent"] = column<int32_t>(nodes, [](const StackNode& n) { return n.parent; });
    resolve();
    found["code"] = column<uint32_t>(nodes, [this](const StackNode& n) {
      return n.code < python_adapter::kNativeCode ? n.code
                                                  : code_of_[n.code - python_adapter::kNativeCode];
    });
    found["line"] = column<int32_t>(nodes, [](const StackNode& n) { return n.line; });
    found["tid"] =
        column<int64_t>(sampler_->threads(), [](const SampledThread& t) { return t.tid; });
    return found;
  }
  py::typing::List<py::str> thread_names() {
    py::typing::List<py::str> found;
    for (const python_adapter::SampledThread& thread : sampler_->threads())
      found.append(text(thread.name));
    return found;
  }
  py::typing::List<py::typing::Tuple<py::str, py::str, int>> codes() {
    py::typing::List<py::typing::Tuple<py::str, py::str, int>> found;
    for (const python_adapter::CodeNames& code : sampler_->codes())
      found.append(py::make_tuple(text(code.name), text(code.file), code.first_line));
    resolve();
    for (const auto& [name, library] : functions_)
      found.append(py::make_tuple(text(name), text(library), 0));
    return found;
  }
  py::typing::Dict<py::str, int64_t> counts() {
    const python_adapter::SampleCounts& counts = sampler_->counts();
    py::typing::Dict<py::str, int64_t> found;
    found["ticks"] = counts.ticks;
    found["missed_ticks"] = counts.missed_ticks;
    found["torn_samples"] = counts.torn;
    found["samples_without_room"] = counts.no_room;
    found["sampler_cpu_ns"] = counts.cpu_ns;
    if (is_native_) {
      found["native_stacks"] = counts.native_stacks;
      found["samples_without_native"] = counts.without_native;
    }
    return found;
  }

 private:
  // Finds the functions of the native codes. Reads symbol tables, without the GIL.
  void resolve() {
    const auto& addresses = sampler_->native_addresses();
    if (code_of_.size() == addresses.size()) return;
    const python_adapter::WithoutGil released;
    const auto first = static_cast<uint32_t>(sampler_->codes().size());
    std::map<std::pair<std::string, std::string>, uint32_t> known;
    for (const uint64_t address : addresses) {
      const auto next = static_cast<uint32_t>(functions_.size());
      const auto [found, added] = known.emplace(native_frame_names(address), next);
      if (added) functions_.push_back(found->first);
      code_of_.push_back(first + found->second);
    }
  }

  python_adapter::StackSampler* const sampler_;
  const bool is_native_;
  std::vector<std::pair<std::string, std::string>> functions_;  // names and libraries
  std::vector<uint32_t> code_of_;                               // by native code
  const uint64_t forks_ = g_sampling_forks;
  Hold hold_{g_sampling_forks};
};

}  // namespace

void register_sampling(py::module_& module) {
  py::class_<StackSampler>(module, "StackSampler", "One profile's sampling of Python stacks.")
      .def(py::init<double, uint64_t, bool>(), py::arg("hz"), py::arg("max_runs"),
           py::arg("native") = false)
      .def(py::init<double, uint64_t, int, int, const std::map<std::string, uint64_t>&,
                    const std::map<std::string, uint64_t>&>(),
           py::arg("hz"), py::arg("max_runs"), py::arg("pid"), py::arg("memory"),
           py::arg("addresses"), py::arg("offsets"),
           "Of another process. memory: a descriptor of its /proc/PID/mem, closed at the end. "
           "offsets: empty if it runs this version of CPython.")
      .def_property_readonly("is_over", &StackSampler::is_over,
                             "Whether the other process has ended, or executes another program.")
      .def("begin", &StackSampler::begin,
           "Start the sampling thread. Return why it cannot be started; empty if it runs.")
      .def("write_to", &StackSampler::write_to, py::arg("path"), py::arg("file_bytes"),
           py::arg("seconds"), py::arg("grows") = false,
           "Write the samples into a new file that keeps the last ones, from begin() on. grows: it "
           "takes only the blocks that it uses. Return what failed; empty if nothing.")
      .def("name_thread", &StackSampler::name_thread, py::arg("tid"), py::arg("name"),
           py::arg("ends") = false,
           "Name a thread of this process, by the kernel's id. ends: a later thread with this id "
           "has another name. Without effect unless it samples.")
      .def("end", &StackSampler::end,
           "Stop, if it is on; what was sampled stays. The destructor does, too.")
      .def_property_readonly("active", &StackSampler::active)
      .def_property_readonly("native_problem", &StackSampler::native_problem,
                             "Why native frames are missing; empty if nothing is wrong.")
      .def("thread_names", &StackSampler::thread_names,
           "Return the names of threads by index, those of the kernel where no Python runs; empty "
           "if "
           "unknown. After end().")
      .def("columns", &StackSampler::columns,
           "Return what was sampled as arrays: runs of equal samples (first_ns, last_ns, thread, "
           "node, count, state), nodes (parent, code, line) and threads (tid). After end().")
      .def("codes", &StackSampler::codes,
           "Return (name, file, first line) of each code object. After end().")
      .def("counts", &StackSampler::counts,
           "Return the numbers of ticks and of samples that are missing. After end().");
  module.def(
      "interpreter_anchors",
      [] {
        const python_adapter::AnchorOffsets found = python_adapter::own_anchors();
        return std::map<std::string, uint64_t>{{"interpreter", found.interpreter},
                                               {"threads_head", found.threads_head},
                                               {"gil_holder", found.gil_holder}};
      },
      "Return where this interpreter has its main state and threads, and the thread with the GIL, "
      "as "
      "offsets; 2**64 - 1 if unknown.");
  module.def(
      "learn_running_loops",
      [](const py::object& marker) { return python_adapter::learn_running_loops(marker.ptr()); },
      py::arg("marker"),
      "Find where thread states have their running event loop, which is `marker` on the calling "
      "thread. Return whether that is known: on CPython 3.14 and newer.");
  module.def(
      "running_loops",
      [] {
        py::typing::List<py::object> found;
        for (PyObject* loop : python_adapter::running_loops())
          found.append(py::reinterpret_steal<py::object>(loop));
        return found;
      },
      "Return the event loops that run, of all threads, after learn_running_loops().");
  module.def(
      "thread_ident", [] { return PyThread_get_thread_ident(); },
      "Return threading.get_ident() of the thread that the kernel runs, not of a greenlet.");
  module.def(
      "name_this_thread", [](const std::string& name) { platform::name_this_thread(name.c_str()); },
      py::arg("name"),
      "Name the calling thread for the kernel. OwnUse counts those that begin with fastprof-.");
  module.def("sampling_after_fork_in_child", [] { ++g_sampling_forks; });
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
