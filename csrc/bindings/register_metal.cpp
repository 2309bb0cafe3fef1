// SPDX-License-Identifier: Apache-2.0
// _core's functions of the process's Metal profiler, for fastprof.metal.
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <cstdint>
#include <string>
#include <utility>

#include "adapters/python/gil.hpp"
#include "adapters/torch/ops/op_intervals.hpp"
#include "backends/metal/process_metal.hpp"
#include "bindings/register.hpp"
#include "fastprof/session/range_signposts.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using python_adapter::WithoutGil;

metal::ProcessMetal& process() {
  std::string reason;
  metal::ProcessMetal* const found = metal::ProcessMetal::get(reason);
  if (found == nullptr)
    raise<UnavailableError>("the Metal profiler is unavailable because " + reason);
  return *found;
}

// What one fastprof.metal.emit_signposts() block emits.
class SignpostEmission {
 public:
  SignpostEmission() = default;
  SignpostEmission(const SignpostEmission&) = delete;
  SignpostEmission& operator=(const SignpostEmission&) = delete;
  ~SignpostEmission() { end(); }

  void begin() {
    if (ranges_) return;
    metal::Signposts& signposts = process().platform().signposts();
    RangeSignposts::start(signposts);
    signposts_ = &signposts;
    ranges_ = true;
  }
  void begin_ops(bool /*shapes*/, bool /*producers*/) {
    if (!ranges_ || ops_) return;
    torch_adapter::start_op_intervals({&begin_op, &end_op});
    ops_ = true;
  }
  void end() noexcept {
    if (std::exchange(ops_, false)) torch_adapter::stop_op_intervals();
    if (std::exchange(ranges_, false)) RangeSignposts::stop();
  }

 private:
  static uint64_t begin_op(const char* name) {
    if (!signposts_->enabled(metal::SignpostLog::intervals)) return 0;
    const uint64_t id = signposts_->make_id(metal::SignpostLog::intervals, nullptr);
    signposts_->begin(metal::SignpostName::range, id, name);
    return id;
  }
  static void end_op(uint64_t id) { signposts_->end(metal::SignpostName::range, id); }

  static inline metal::Signposts* signposts_ = nullptr;  // the process's
  bool ranges_ = false;
  bool ops_ = false;
};

py::dict copy_row(const metal::CopyStatistics& copy) {
  py::dict row;
  row["kind"] = metal::copy_kind_name(copy.kind);
  row["count"] = copy.count;
  row["bytes"] = copy.bytes;
  row["gpu_ms"] = copy.gpu_ms;
  row["scheduling_ms"] = copy.scheduling_ms;
  row["scalar_count"] = copy.scalar_count;
  row["scalar_gpu_ms"] = copy.scalar_gpu_ms;
  row["blocking_count"] = copy.blocking_count;
  row["memcpy_count"] = copy.memcpy_count;
  return row;
}

py::typing::Dict<py::str, py::object> statistics() {
  metal::Statistics got;
  {
    const WithoutGil without_gil;
    got = process().profiler().statistics();
  }
  py::list operations, fallbacks, copies;
  for (const metal::OperationStatistics& each : got.operations) {
    py::dict row;
    row["profile_id"] = each.profile_id;
    row["is_graph"] = each.is_graph;
    row["name"] = each.name;
    row["run_count"] = each.run_count;
    row["completed_count"] = each.completed_count;
    row["gpu_ms"] = each.gpu_ms;
    row["scheduling_ms"] = each.scheduling_ms;
    operations.append(row);
  }
  for (const metal::FallbackStatistics& each : got.fallbacks) {
    py::dict row;
    row["profile_id"] = each.profile_id;
    row["op_name"] = each.op_name;
    row["run_count"] = each.run_count;
    row["cpu_ms"] = each.cpu_ms;
    row["copy_overhead_bytes"] = each.copy_overhead_bytes;
    fallbacks.append(row);
  }
  for (const metal::CopyStatistics& each : got.copies) copies.append(copy_row(each));
  py::typing::Dict<py::str, py::object> all;
  all["operations"] = operations;
  all["fallbacks"] = fallbacks;
  all["copies"] = copies;
  all["graph_count"] = got.graph_count;
  all["kernel_count"] = got.kernel_count;
  all["copy_count"] = got.copy_count;
  all["fallback_count"] = got.fallback_count;
  all["failed_count"] = got.failed_count;
  all["pending_count"] = got.pending_count;
  return all;
}

}  // namespace

void register_metal(py::module_& module) {
  const py::call_guard<WithoutGil> without_gil;
  module.def(
      "register_metal", [] { devices::register_metal_backend(); }, without_gil,
      "Register the backend \"MPS\"; the first call counts. Loads nothing. Any thread.");
  module.def(
      "metal_problem",
      [] {
        std::string reason;
        metal::ProcessMetal::get(reason);
        return reason;
      },
      without_gil,
      "Return why Metal work cannot be profiled here, empty if it can; errors.ValueError if the "
      "environment has invalid options. Any thread.");
  module.def(
      "metal_start", [](const std::string& mode, bool wait) { process().start_trace(mode, wait); },
      py::arg("mode"), py::arg("wait_until_completed"), without_gil,
      "Trace signposts: \"interval\", \"event\" or both joined by a comma. errors.ValueError for "
      "another mode, errors.StateError if they are traced already. Any thread.");
  module.def(
      "metal_stop", [] { process().stop_trace(); }, without_gil,
      "End the trace of signposts. Any thread.");
  module.def(
      "metal_options",
      [] {
        const metal::Options options = process().profiler().options();
        return std::tuple(options.profile, options.signposts, options.log);
      },
      without_gil,
      "Return the bits of ProfileOptions, SignpostTypes and LogOptions in effect. Any thread.");
  module.def(
      "metal_set_log_options", [](uint32_t log) { process().set_log_options(log); }, py::arg("log"),
      without_gil,
      "Replace what is logged: bits of LogOptions; errors.ValueError for others. Any thread.");
  module.def(
      "metal_capture_enabled", [] { return process().capture().is_enabled(); }, without_gil,
      "Return whether this process may write captures. Any thread.");
  module.def(
      "metal_is_capturing", [] { return process().capture().is_capturing(); }, without_gil,
      "Return whether a capture runs. Any thread.");
  module.def(
      "metal_start_capture",
      [](const std::string& name) { return process().capture().start(name); }, py::arg("name"),
      without_gil,
      "Start a capture of the device and return the path of its document. Any thread.");
  module.def(
      "metal_stop_capture", [] { process().capture().stop(); }, without_gil,
      "Complete the captured work and close the document. Any thread.");
  py::class_<SignpostEmission>(module, "SignpostEmission",
                               "Signpost intervals of ranges, and of torch's ops, from begin() to "
                               "end(). Use from one thread at a time.")
      .def(py::init<>())
      .def("begin", &SignpostEmission::begin, without_gil,
           "Make intervals of the ranges of all threads. errors.StateError if they are made "
           "already, errors.UnavailableError without Metal.")
      .def("begin_ops", &SignpostEmission::begin_ops, py::arg("shapes"), py::arg("producers"),
           without_gil,
           "Make intervals of torch ops, too, which must have been proven. The arguments have no "
           "effect. No effect without begin().")
      .def("end", &SignpostEmission::end, without_gil, "End both. No effect when called again.");
  module.def("metal_statistics", &statistics,
             "Return the sums of the Metal profiler as dictionaries and lists. Any thread.");
  module.def(
      "metal_tables",
      [](uint32_t log) {
        return metal::tables_text(process().profiler().statistics(),
                                  metal::resolve_options({0, 0, log}, "tables").log);
      },
      py::arg("log"), without_gil,
      "Return the tables that bits of LogOptions name, as text. Any thread.");
  module.def(
      "metal_wait_for_pending",
      [](double timeout_s) { return process().profiler().wait_for_pending(timeout_s); },
      py::arg("timeout_s"), without_gil,
      "Commit what streams hold back, wait for it, and return how many command buffers had not "
      "completed after timeout_s seconds. Any thread.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
