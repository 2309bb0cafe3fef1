// SPDX-License-Identifier: Apache-2.0
// The parts of fastprof._core.
#pragma once

#include <pybind11/pybind11.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Each part is a function register_<part>, in the .cpp of that name, and they run in this order:
// errors first, because the others may throw; what sessions take (sinks and collections of devices)
// before session; blocks, which adds methods to Capture, after it; trace_rows before trace_proto.
// clang-format off
#define FASTPROF_PARTS(part) \
  part(errors) part(version) part(ranges) part(device_plugins) part(devices) part(session) \
  part(recover) part(aggregates) part(process) part(late_signal) part(objects) part(blocks) \
  part(table_capture) part(table_kernels) part(sqlite_pages) part(rank_steps) part(trace_rows) part(trace_proto) \
  part(propagate) part(python_calls) part(python_memory) part(sampling) part(tasks) part(legacy) \
  part(emission) part(metal) part(torch) part(torch_memory) part(torch_holds)
// clang-format on
#define FASTPROF_DECLARE_PART(part) void register_##part(pybind11::module_& module);
FASTPROF_PARTS(FASTPROF_DECLARE_PART)
#undef FASTPROF_DECLARE_PART

// Call in a forked child, before it uses any hold.
void forget_torch_holds_in_child() noexcept;

}  // namespace bindings
FASTPROF_NAMESPACE_END
