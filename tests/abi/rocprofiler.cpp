// SPDX-License-Identifier: Apache-2.0
// Compile-time check of rocprofiler_abi.hpp. Not part of the library: a test compiles it against
// the genuine headers of rocprofiler-sdk 1.x where there are some.
#include <rocprofiler-sdk/external_correlation.h>
#include <rocprofiler-sdk/registration.h>
#include <rocprofiler-sdk/rocprofiler.h>

#include <type_traits>

#include "backends/rocm/rocprofiler_library.hpp"

namespace own = fastprof::rocm;

#define SAME(ours, our_field, theirs, their_field)                                 \
  static_assert(offsetof(own::ours, our_field) == offsetof(theirs, their_field) && \
                    sizeof(own::ours::our_field) == sizeof(theirs::their_field),   \
                #theirs "." #their_field)

SAME(RecordHeader, category, rocprofiler_record_header_t, category);
SAME(RecordHeader, kind, rocprofiler_record_header_t, kind);
SAME(RecordHeader, payload, rocprofiler_record_header_t, payload);

#define CALL(ours, theirs) \
  SAME(CallRecord, ours, rocprofiler_buffer_tracing_hip_api_record_t, theirs)
CALL(size, size);
CALL(operation, operation);
CALL(correlation, correlation_id);
CALL(start, start_timestamp);
CALL(end, end_timestamp);
CALL(thread_id, thread_id);
static_assert(offsetof(own::CallCorrelation, external) ==
                  offsetof(rocprofiler_correlation_id_t, external) &&
              offsetof(own::WorkCorrelation, external) ==
                  offsetof(rocprofiler_async_correlation_id_t, external));

#define KERNEL(ours, theirs) \
  SAME(KernelRecord, ours, rocprofiler_buffer_tracing_kernel_dispatch_record_t, theirs)
KERNEL(operation, operation);
KERNEL(correlation, correlation_id);
KERNEL(start, start_timestamp);
KERNEL(end, end_timestamp);
KERNEL(agent, dispatch_info.agent_id);
KERNEL(queue, dispatch_info.queue_id);
KERNEL(kernel_id, dispatch_info.kernel_id);
KERNEL(group_segment_bytes, dispatch_info.group_segment_size);
KERNEL(workgroup, dispatch_info.workgroup_size);
KERNEL(grid, dispatch_info.grid_size);

#define COPY(ours, theirs) \
  SAME(CopyRecord, ours, rocprofiler_buffer_tracing_memory_copy_record_t, theirs)
COPY(operation, operation);
COPY(correlation, correlation_id);
COPY(start, start_timestamp);
COPY(end, end_timestamp);
COPY(destination, dst_agent_id);
COPY(source, src_agent_id);
COPY(bytes, bytes);

SAME(RetirementRecord, internal, rocprofiler_buffer_tracing_correlation_id_retirement_record_t,
     internal_correlation_id);

#define SYMBOL(ours, theirs)                                                                       \
  SAME(KernelSymbol, ours, rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t, \
       theirs)
SYMBOL(kernel_id, kernel_id);
SYMBOL(name, kernel_name);

#define CALLBACK(ours, theirs) \
  SAME(CallbackRecord, ours, rocprofiler_callback_tracing_record_t, theirs)
CALLBACK(kind, kind);
CALLBACK(operation, operation);
CALLBACK(phase, phase);
CALLBACK(payload, payload);
static_assert(sizeof(own::CallbackRecord) == sizeof(rocprofiler_callback_tracing_record_t));

#define AGENT(ours, theirs) SAME(Agent, ours, rocprofiler_agent_v0_t, theirs)
AGENT(id, id);
AGENT(type, type);
AGENT(lds_kib, lds_size_in_kb);
AGENT(wavefront_size, wave_front_size);
AGENT(compute_units, cu_count);
AGENT(gfx_version, gfx_target_version);
AGENT(workgroup_max_items, workgroup_max_size);
AGENT(memory_bytes, local_mem_size);
AGENT(product_name, product_name);
AGENT(device_index, logical_node_type_id);

SAME(ClientId, name, rocprofiler_client_id_t, name);
static_assert(sizeof(own::ClientId) == sizeof(rocprofiler_client_id_t));
SAME(ToolConfiguration, initialize, rocprofiler_tool_configure_result_t, initialize);
SAME(ToolConfiguration, finalize, rocprofiler_tool_configure_result_t, finalize);
static_assert(sizeof(own::ToolConfiguration) == sizeof(rocprofiler_tool_configure_result_t));

#define EQUAL(ours, theirs) static_assert(static_cast<int64_t>(theirs) == own::ours, #theirs)
EQUAL(status::success, ROCPROFILER_STATUS_SUCCESS);
EQUAL(status::configuration_locked, ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED);
EQUAL(kCategoryTracing, ROCPROFILER_BUFFER_CATEGORY_TRACING);
EQUAL(kPolicyLossless, ROCPROFILER_BUFFER_POLICY_LOSSLESS);
EQUAL(buffered::hip_runtime_api, ROCPROFILER_BUFFER_TRACING_HIP_RUNTIME_API);
EQUAL(buffered::memory_copy, ROCPROFILER_BUFFER_TRACING_MEMORY_COPY);
EQUAL(buffered::kernel_dispatch, ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH);
EQUAL(buffered::retirement, ROCPROFILER_BUFFER_TRACING_CORRELATION_ID_RETIREMENT);
EQUAL(kCallbackCodeObject, ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT);
EQUAL(kKernelSymbolRegister, ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER);
EQUAL(kPhaseLoad, ROCPROFILER_CALLBACK_PHASE_LOAD);
EQUAL(kRequestHipRuntimeApi, ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_HIP_RUNTIME_API);
EQUAL(kAgentVersion, ROCPROFILER_AGENT_INFO_VERSION_0);
EQUAL(kAgentGpu, ROCPROFILER_AGENT_TYPE_GPU);
EQUAL(copy::host_to_host, ROCPROFILER_MEMORY_COPY_HOST_TO_HOST);
EQUAL(copy::host_to_device, ROCPROFILER_MEMORY_COPY_HOST_TO_DEVICE);
EQUAL(copy::device_to_host, ROCPROFILER_MEMORY_COPY_DEVICE_TO_HOST);
EQUAL(copy::device_to_device, ROCPROFILER_MEMORY_COPY_DEVICE_TO_DEVICE);

// Handles are structs of one number and enumerations are 32 bits wide, passed like ours.
template <class Ours, class Theirs>
constexpr bool fits() {
  if constexpr (std::is_pointer_v<Ours>)
    return std::is_pointer_v<Theirs>;
  else
    return sizeof(Ours) == sizeof(Theirs);
}
template <class... OurArguments, class OurResult, class... TheirArguments, class TheirResult>
constexpr bool same(OurResult (*)(OurArguments...), TheirResult (*)(TheirArguments...)) {
  if constexpr (sizeof...(OurArguments) != sizeof...(TheirArguments))
    return false;
  else
    return (fits<OurArguments, TheirArguments>() && ...);
}
#define FUNCTION(field, theirs)                                                                  \
  static_assert(                                                                                 \
      same(decltype(own::RocprofilerLibrary::field){}, static_cast<decltype(&theirs)>(nullptr)), \
      #theirs)
FUNCTION(get_version, rocprofiler_get_version);
FUNCTION(is_initialized, rocprofiler_is_initialized);
FUNCTION(force_configure, rocprofiler_force_configure);
FUNCTION(create_context, rocprofiler_create_context);
FUNCTION(start_context, rocprofiler_start_context);
FUNCTION(stop_context, rocprofiler_stop_context);
FUNCTION(context_is_valid, rocprofiler_context_is_valid);
FUNCTION(create_buffer, rocprofiler_create_buffer);
FUNCTION(flush_buffer, rocprofiler_flush_buffer);
FUNCTION(trace_into_buffer, rocprofiler_configure_buffer_tracing_service);
FUNCTION(trace_by_callback, rocprofiler_configure_callback_tracing_service);
FUNCTION(request_external, rocprofiler_configure_external_correlation_id_request_service);
FUNCTION(each_operation, rocprofiler_iterate_buffer_tracing_kind_operations);
FUNCTION(operation_name, rocprofiler_query_buffer_tracing_kind_operation_name);
FUNCTION(each_agent, rocprofiler_query_available_agents);
FUNCTION(timestamp, rocprofiler_get_timestamp);
FUNCTION(status_text, rocprofiler_get_status_string);

#define CALLBACK_TYPE(ours, theirs) static_assert(same(own::ours{}, theirs{}), #theirs)
CALLBACK_TYPE(Configure, rocprofiler_configure_func_t);
CALLBACK_TYPE(BufferCallback, rocprofiler_buffer_tracing_cb_t);
CALLBACK_TYPE(CallbackTracing, rocprofiler_callback_tracing_cb_t);
CALLBACK_TYPE(ExternalRequest, rocprofiler_external_correlation_id_request_cb_t);
CALLBACK_TYPE(EachOperation, rocprofiler_buffer_tracing_kind_operation_cb_t);
CALLBACK_TYPE(EachAgent, rocprofiler_query_available_agents_cb_t);
