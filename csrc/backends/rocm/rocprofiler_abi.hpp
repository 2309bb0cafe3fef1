// SPDX-License-Identifier: Apache-2.0
// The part of the binary interface of rocprofiler-sdk 1.x (ROCm 7) that fastprof uses, declared
// from AMD's documentation, so that no header of AMD's is needed to build. tests/abi compares
// it with the genuine headers.
//
// Records and agents are prefixes: their first field is their size, and a minor version only
// appends fields. Handles, which AMD declares as structs of one 64-bit number each, are numbers
// here: both are passed in one register.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {

using Status = uint32_t;  // rocprofiler_status_t
namespace status {
constexpr Status success = 0, configuration_locked = 16, finalized = 21;
}

using Handle = uint64_t;  // of a context, buffer, agent or queue

// rocprofiler_buffer_category_t and rocprofiler_buffer_policy_t.
constexpr uint32_t kCategoryTracing = 1;
constexpr uint32_t kPolicyLossless = 2;

// rocprofiler_buffer_tracing_kind_t.
namespace buffered {
constexpr uint32_t hip_runtime_api = 5, memory_copy = 10, kernel_dispatch = 11, retirement = 13;
}

// rocprofiler_callback_tracing_kind_t, its operation, and rocprofiler_callback_phase_t.
constexpr uint32_t kCallbackCodeObject = 10;
constexpr int32_t kKernelSymbolRegister = 2;
constexpr uint32_t kPhaseLoad = 1;

// rocprofiler_external_correlation_id_request_kind_t.
constexpr uint32_t kRequestHipRuntimeApi = 5;

// rocprofiler_agent_version_t and rocprofiler_agent_type_t.
constexpr uint32_t kAgentVersion = 1;
constexpr uint32_t kAgentGpu = 2;

// rocprofiler_memory_copy_operation_t.
namespace copy {
constexpr int32_t host_to_host = 1, host_to_device = 2, device_to_host = 3, device_to_device = 4;
}

struct Dim3 {
  uint32_t x, y, z;
};

// rocprofiler_correlation_id_t, of calls.
struct CallCorrelation {
  uint64_t internal, external, ancestor;
};
// rocprofiler_async_correlation_id_t, of work.
struct WorkCorrelation {
  uint64_t internal, external;
};

// rocprofiler_record_header_t.
struct RecordHeader {
  uint32_t category, kind;
  const void* payload;
};

// rocprofiler_buffer_tracing_hip_api_record_t.
struct CallRecord {
  uint64_t size;
  uint32_t kind;
  int32_t operation;
  CallCorrelation correlation;
  uint64_t start, end, thread_id;
};

// rocprofiler_buffer_tracing_kernel_dispatch_record_t, with its rocprofiler_kernel_dispatch_info_t.
struct KernelRecord {
  uint64_t size;
  uint32_t kind;
  int32_t operation;
  WorkCorrelation correlation;
  uint64_t thread_id, start, end;
  uint64_t info_size;
  Handle agent, queue;
  uint64_t kernel_id, dispatch_id;
  uint32_t private_segment_bytes, group_segment_bytes;
  Dim3 workgroup;  // work-items of a workgroup
  Dim3 grid;       // work-items of the grid
};

// rocprofiler_buffer_tracing_memory_copy_record_t.
struct CopyRecord {
  uint64_t size;
  uint32_t kind;
  int32_t operation;
  WorkCorrelation correlation;
  uint64_t thread_id, start, end;
  Handle destination, source;
  uint64_t bytes;
};

// rocprofiler_buffer_tracing_correlation_id_retirement_record_t: all work of a call has ended, and
// its records are in the buffer.
struct RetirementRecord {
  uint64_t size;
  uint32_t kind;
  uint64_t timestamp, internal;
};

// rocprofiler_callback_tracing_record_t.
struct CallbackRecord {
  Handle context;
  uint64_t thread_id;
  CallCorrelation correlation;
  uint32_t kind;
  int32_t operation;
  uint32_t phase;
  const void* payload;
};

// rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t.
struct KernelSymbol {
  uint64_t size, kernel_id, code_object_id;
  const char* name;
};

// rocprofiler_agent_v0_t.
struct Agent {
  uint64_t size;
  Handle id;
  uint32_t type;
  uint32_t cpu_cores, simds, memory_banks, caches, io_links, cpu_core_base, simd_base;
  uint32_t max_waves_per_simd, lds_kib, gds_kib, gws, wavefront_size, xccs, compute_units;
  uint32_t arrays, shader_banks, arrays_per_engine, units_per_array, simds_per_unit, scratch_slots;
  uint32_t gfx_version;  // 90402: gfx942
  uint16_t vendor_id, device_id;
  uint32_t location, domain, render_minor, sdma_engines, xgmi_engines, queues_per_engine, queues;
  uint32_t cpu_clock, gpu_clock, sdma_firmware, firmware, capability, units_per_engine;
  uint32_t max_waves_per_unit, family, workgroup_max_items, grid_max_items;
  uint64_t memory_bytes, hive_id, gpu_id;
  Dim3 workgroup_max, grid_max;
  const void *bank_list, *cache_list, *link_list;
  const char *name, *vendor_name, *product_name, *model_name;
  uint32_t node_id;
  int32_t logical_node_id;
  int32_t device_index;  // among the GPUs, if it is one: logical_node_type_id
};

// rocprofiler_client_id_t.
struct ClientId {
  size_t size;
  const char* name;
  uint32_t handle;
};

// rocprofiler_tool_configure_result_t.
struct ToolConfiguration {
  size_t size;
  int (*initialize)(void (*finalize)(ClientId), void* data);
  void (*finalize)(void* data);
  void* data;
};

using Configure = ToolConfiguration* (*)(uint32_t version, const char* runtime_version,
                                         uint32_t priority, ClientId* client);
using BufferCallback = void (*)(Handle context, Handle buffer, RecordHeader** headers, size_t count,
                                void* data, uint64_t dropped);
using CallbackTracing = void (*)(CallbackRecord record, uint64_t* user_data, void* data);
using ExternalRequest = int (*)(uint64_t thread_id, Handle context, uint32_t kind,
                                int32_t operation, uint64_t internal, uint64_t* external,
                                void* data);
using EachOperation = int (*)(uint32_t kind, int32_t operation, void* data);
using EachAgent = Status (*)(uint32_t version, const void** agents, size_t count, void* data);

// rocprofiler_register_registration_info_t of librocprofiler-register: a library of ROCm that has
// started.
struct RegistrationInfo {
  size_t size;
  const char* name;  // "hip", "hsa"
  uint32_t version;
  uint64_t tables;
};
using EachRegistration = int (*)(RegistrationInfo* info, void* data);

}  // namespace rocm
FASTPROF_NAMESPACE_END
