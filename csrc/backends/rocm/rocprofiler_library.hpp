// SPDX-License-Identifier: Apache-2.0
// RocprofilerLibrary: the functions of librocprofiler-sdk that fastprof calls, found at run time.
#pragma once

#include <string>
#include <vector>

#include "backends/rocm/rocprofiler_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {

struct RocprofilerLibrary {
  std::string path;  // empty: not loaded
  uint32_t major = 0, minor = 0;

  Status (*get_version)(uint32_t* major, uint32_t* minor, uint32_t* patch) = nullptr;
  Status (*is_initialized)(int* status) = nullptr;
  Status (*force_configure)(Configure) = nullptr;
  Status (*create_context)(Handle*) = nullptr;
  Status (*start_context)(Handle) = nullptr;
  Status (*stop_context)(Handle) = nullptr;
  Status (*context_is_valid)(Handle, int* status) = nullptr;
  Status (*create_buffer)(Handle context, size_t size, size_t watermark, uint32_t policy,
                          BufferCallback, void* data, Handle* buffer) = nullptr;
  Status (*flush_buffer)(Handle) = nullptr;
  Status (*trace_into_buffer)(Handle context, uint32_t kind, const int32_t* operations,
                              size_t count, Handle buffer) = nullptr;
  Status (*trace_by_callback)(Handle context, uint32_t kind, const int32_t* operations,
                              size_t count, CallbackTracing, void* data) = nullptr;
  Status (*request_external)(Handle context, const uint32_t* kinds, size_t count, ExternalRequest,
                             void* data) = nullptr;
  Status (*each_operation)(uint32_t kind, EachOperation, void* data) = nullptr;
  Status (*operation_name)(uint32_t kind, int32_t operation, const char** name,
                           uint64_t* length) = nullptr;
  Status (*each_agent)(uint32_t version, EachAgent, size_t agent_size, void* data) = nullptr;
  Status (*timestamp)(uint64_t*) = nullptr;
  const char* (*status_text)(Status) = nullptr;

  // The text of a status, for messages.
  std::string text_of(Status code) const;
};

// Loads librocprofiler-sdk, once in a process; see load_library(). FASTPROF_ROCPROFILER_LIBRARY
// names a file, or is empty to switch it off. Returns null and the reason if there is none, or if
// its interface is not that of version 1. Any thread.
const RocprofilerLibrary* load_rocprofiler(const std::vector<std::string>& candidates,
                                           std::string& problem);

// Returns whether HIP or the runtime below it has started: what rocprofiler-sdk instruments when it
// starts then stays as it is. False if ROCm is too old to report it. Any thread.
bool hip_has_started();

}  // namespace rocm
FASTPROF_NAMESPACE_END
