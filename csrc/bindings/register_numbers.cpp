// SPDX-License-Identifier: Apache-2.0
// native_numbers(): the enums of which Python has copies (fastprof/base/native_numbers.py). A test
// compares the copies with this list, and this list with the headers.
#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <string>

#include "bindings/register.hpp"
#include "core/trace_proto/sequence_state.hpp"
#include "core/trace_rows/row_store.hpp"
#include "fastprof/base/drop_cause_name.hpp"
#include "fastprof/base/scope.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/legacy/profiler_config.hpp"
#include "fastprof/payload/blocks/detail_block.hpp"
#include "fastprof/payload/op_inputs/op_inputs.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/recorder/state/site.hpp"
#include "fastprof/recorder/state/state.hpp"

namespace py = pybind11;

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

using Numbers = std::map<std::string, int64_t>;

// clang-format off
#define NUMBER(scope, name) {#name, static_cast<int64_t>(scope::name)}

std::map<std::string, Numbers> native_numbers() {
  return {
      {"ArgType", {NUMBER(ArgType, int64), NUMBER(ArgType, uint64), NUMBER(ArgType, float64),
                   NUMBER(ArgType, boolean), NUMBER(ArgType, string), NUMBER(ArgType, pointer)}},
      {"category", {NUMBER(category, user), NUMBER(category, op), NUMBER(category, memory),
                    NUMBER(category, counter), NUMBER(category, mark), NUMBER(category, flow),
                    NUMBER(category, async), NUMBER(category, python_call), NUMBER(category, runtime),
                    NUMBER(category, device), NUMBER(category, task), NUMBER(category, python_module),
                    NUMBER(category, custom0), NUMBER(category, all)}},
      {"detail_flag", {NUMBER(detail_flag, written), NUMBER(detail_flag, unavailable),
                       NUMBER(detail_flag, truncated)}},
      {"DetailType", {NUMBER(DetailType, counters_begin), NUMBER(DetailType, counters_end),
                      NUMBER(DetailType, cpp_stack), NUMBER(DetailType, python_stack),
                      NUMBER(DetailType, op), NUMBER(DetailType, op_inputs),
                      NUMBER(DetailType, json), NUMBER(DetailType, nothing),
                      NUMBER(DetailType, modules), NUMBER(DetailType, op_inputs_ref),
                      NUMBER(DetailType, overload)}},
      {"DeviceType", {NUMBER(DeviceType, NONE), NUMBER(DeviceType, CPU), NUMBER(DeviceType, CUDA),
                      NUMBER(DeviceType, MKLDNN), NUMBER(DeviceType, OPENGL),
                      NUMBER(DeviceType, OPENCL), NUMBER(DeviceType, IDEEP),
                      NUMBER(DeviceType, HIP), NUMBER(DeviceType, FPGA), NUMBER(DeviceType, MAIA),
                      NUMBER(DeviceType, XLA), NUMBER(DeviceType, VULKAN),
                      NUMBER(DeviceType, METAL), NUMBER(DeviceType, XPU), NUMBER(DeviceType, MPS),
                      NUMBER(DeviceType, META), NUMBER(DeviceType, HPU), NUMBER(DeviceType, VE),
                      NUMBER(DeviceType, LAZY), NUMBER(DeviceType, IPU), NUMBER(DeviceType, MTIA),
                      NUMBER(DeviceType, PRIVATEUSE1)}},
      {"DropCause", {NUMBER(DropCause, bound), NUMBER(DropCause, overwritten),
                     NUMBER(DropCause, in_flight), NUMBER(DropCause, reentrant),
                     NUMBER(DropCause, thread_exit), NUMBER(DropCause, clock),
                     NUMBER(DropCause, spill_failed), NUMBER(DropCause, names),
                     NUMBER(DropCause, ends), NUMBER(DropCause, device)}},
      {"event_flag", {NUMBER(event_flag, finished), NUMBER(event_flag, cross_thread_end),
                      NUMBER(event_flag, clock_discontinuity), NUMBER(event_flag, clamped),
                      NUMBER(event_flag, enclosing), NUMBER(event_flag, detail)}},
      {"input_bit", {NUMBER(input_bit, wide), NUMBER(input_bit, packed),
                     NUMBER(input_bit, strides), NUMBER(input_bit, cut),
                     NUMBER(input_bit, storage)}},
      {"InputKind", {NUMBER(InputKind, other), NUMBER(InputKind, tensor),
                     NUMBER(InputKind, undefined), NUMBER(InputKind, integer),
                     NUMBER(InputKind, real), NUMBER(InputKind, boolean),
                     NUMBER(InputKind, complex), NUMBER(InputKind, list),
                     NUMBER(InputKind, tensor_list), NUMBER(InputKind, text)}},
      {"OverflowPolicy", {NUMBER(OverflowPolicy, drop_newest),
                          NUMBER(OverflowPolicy, overwrite_oldest),
                          NUMBER(OverflowPolicy, spill_to_file)}},
      {"ProfilerState", {NUMBER(ProfilerState, Disabled), NUMBER(ProfilerState, CPU),
                         NUMBER(ProfilerState, CUDA), NUMBER(ProfilerState, NVTX),
                         NUMBER(ProfilerState, ITT), NUMBER(ProfilerState, PRIVATEUSE1),
                         NUMBER(ProfilerState, KINETO), NUMBER(ProfilerState, KINETO_GPU_FALLBACK),
                         NUMBER(ProfilerState, KINETO_PRIVATEUSE1_FALLBACK),
                         NUMBER(ProfilerState, KINETO_PRIVATEUSE1),
                         NUMBER(ProfilerState, KINETO_ONDEMAND)}},
      {"RecordScope", {NUMBER(RecordScope, FUNCTION), NUMBER(RecordScope, BACKWARD_FUNCTION),
                       NUMBER(RecordScope, TORCHSCRIPT_FUNCTION),
                       NUMBER(RecordScope, KERNEL_FUNCTION_DTYPE),
                       NUMBER(RecordScope, CUSTOM_CLASS), NUMBER(RecordScope, BUILD_FEATURE),
                       NUMBER(RecordScope, LITE_INTERPRETER), NUMBER(RecordScope, USER_SCOPE),
                       NUMBER(RecordScope, STATIC_RUNTIME_OP),
                       NUMBER(RecordScope, STATIC_RUNTIME_MODEL),
                       NUMBER(RecordScope, NUM_SCOPES)}},
      {"SiteKind", {NUMBER(SiteKind, range), NUMBER(SiteKind, async_range),
                    NUMBER(SiteKind, mark), NUMBER(SiteKind, counter),
                    NUMBER(SiteKind, flow_begin), NUMBER(SiteKind, flow_end),
                    NUMBER(SiteKind, memory), NUMBER(SiteKind, out_of_memory),
                    NUMBER(SiteKind, session_membership)}},
      {"OpScope", {NUMBER(trace_rows::OpScope, user), NUMBER(trace_rows::OpScope, function),
                   NUMBER(trace_rows::OpScope, backward)}},
      {"Stop", {NUMBER(trace_rows::Stop, more), NUMBER(trace_rows::Stop, other),
                NUMBER(trace_rows::Stop, refused)}},
      {"TextKind", {NUMBER(trace_proto::TextKind, category), NUMBER(trace_proto::TextKind, event_name),
                    NUMBER(trace_proto::TextKind, annotation_name),
                    NUMBER(trace_proto::TextKind, annotation_text)}},
      {"limits", {{"kMaxArgs", kMaxArgs}, {"kNoParent", kNoParent}, {"kNoPayload", kNoPayload}}},
  };
}
// clang-format on

std::map<std::string, bool> missing_causes() {
  std::map<std::string, bool> causes;
  for (size_t i = 0; i < kNumDropCauses; ++i)
    causes[drop_cause_name(static_cast<DropCause>(i))] = is_missing(static_cast<DropCause>(i));
  return causes;
}

}  // namespace

void register_numbers(py::module_& module) {
  module.def("native_numbers", &native_numbers,
             "Return the members of each enum, or namespace of constants, that Python uses: name "
             "-> value.");
  module.def("missing_causes", &missing_causes,
             "Return for each drop cause whether its events are missing (True) or incomplete.");
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
