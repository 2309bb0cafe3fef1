// SPDX-License-Identifier: Apache-2.0
// CuptiLibrary: finds NVIDIA's libcupti at run time, and its functions.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/cupti_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

// Functions of libcupti and of the driver's library. Optional ones are null if the version lacks
// them.
struct CuptiLibrary {
  std::string path;  // of libcupti; empty: not loaded
  uint32_t version = 0;

  Result (*get_version)(uint32_t*) = nullptr;
  Result (*get_result_string)(Result, const char**) = nullptr;
  Result (*subscribe)(void** subscriber, Callback, void* user) = nullptr;
  Result (*unsubscribe)(void* subscriber) = nullptr;
  Result (*register_callbacks)(RequestBuffer, CompleteBuffer) = nullptr;
  Result (*enable)(uint32_t kind) = nullptr;
  Result (*disable)(uint32_t kind) = nullptr;
  Result (*next_record)(uint8_t* buffer, size_t valid_size, Record** record) = nullptr;
  Result (*flush_all)(uint32_t flag) = nullptr;
  Result (*dropped_records)(void* context, uint32_t stream, size_t* dropped) = nullptr;
  Result (*timestamp)(uint64_t*) = nullptr;
  // optional
  Result (*register_timestamp)(Timestamp) = nullptr;  // CUDA 11.6
  Result (*set_thread_id_type)(uint32_t) = nullptr;
  Result (*callback_name)(uint32_t domain, uint32_t cbid, const char** name) = nullptr;
  Result (*configure_unified_memory)(UnifiedMemoryConfig*, uint32_t count) = nullptr;
  Result (*subscribe_v2)(void** subscriber, Callback, void* user, SubscriberParams*) = nullptr;
  Result (*set_attribute)(uint32_t attribute, size_t* bytes, void* value) = nullptr;
  Result (*enable_runtime_call)(uint32_t cbid, uint8_t on) = nullptr;  // CUDA 12.5
  Result (*enable_driver_call)(uint32_t cbid, uint8_t on) = nullptr;
  Result (*finalize)() = nullptr;
  Result (*enable_event_stamps)(uint8_t on) = nullptr;  // CUDA 12.8

  // Of the driver's library, if the process has loaded it. Null if it lacks them.
  struct Driver {
    int (*get_version)(int* version) = nullptr;
    int (*device_count)(int* count) = nullptr;
    int (*device_attribute)(int* value, int attribute, int device) = nullptr;
    int (*device_name)(char* name, int bytes, int device) = nullptr;
    int (*device_memory)(size_t* bytes, int device) = nullptr;
    int (*context_synchronize)() = nullptr;
    int (*context_push)(void* context) = nullptr;
    int (*context_pop)(void** context) = nullptr;
    int (*primary_state)(int device, unsigned* flags, int* active) = nullptr;
    int (*primary_retain)(void** context, int device) = nullptr;
    int (*primary_release)(int device) = nullptr;
  } driver;

  // "libcupti 13.0.1, driver 13.0": for messages.
  std::string versions() const;

  // The text of a result, for messages.
  std::string text_of(Result code) const;
};

// Loads libcupti, once in a process, in this order: the file named by FASTPROF_CUPTI_LIBRARY
// (empty: disabled); the copy that the process has already loaded, because two copies would be two
// clients of a driver that accepts one; `candidates` (paths in NVIDIA's Python packages); the
// toolkit at CUDA_HOME or CUDA_PATH; what the loader finds. The library is never unloaded. Returns
// null and sets `problem` if there is none. Any thread.
const CuptiLibrary* load_cupti(const std::vector<std::string>& candidates, std::string& problem);

}  // namespace cupti
FASTPROF_NAMESPACE_END
