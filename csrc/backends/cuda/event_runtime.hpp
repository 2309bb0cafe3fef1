// SPDX-License-Identifier: Apache-2.0
// EventRuntime: the part of CUDA's runtime, or of HIP's, that times ranges by events, declared by
// us and found at run time. HIP's functions have the shapes of CUDA's and the prefix "hip" for
// "cuda". tests/abi compares them with the genuine headers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

using Event = void*;   // cudaEvent_t, hipEvent_t
using Stream = void*;  // cudaStream_t, hipStream_t; null: the default stream

// cudaError_t and cudaStreamCaptureStatus; HIP's have the same values.
constexpr int kSuccess = 0, kNotReady = 600;
constexpr int kCaptureNone = 0;
constexpr unsigned kTimedEvent = 0;  // cudaEventDefault, hipEventDefault: with a time

// A vendor's runtime. One object each; compared by address.
struct RuntimeVendor {
  const char* device;    // "CUDA"
  const char* backend;   // name of the backend that records its events
  const char* prefix;    // of its functions' names
  const char* variable;  // environment variable with the library's path
  const char* library;   // its name without a version, for messages
  std::vector<const char*> sonames;
  std::vector<const char*> toolkit, below_toolkit;  // as in LibrarySearch
  const char* install;
  // PyTorch's library of streams, and the symbols of getCurrentCUDAStream() and
  // CUDAStream::stream(), by version of PyTorch.
  const char* torch_library;
  std::vector<std::pair<const char*, const char*>> torch_functions;
};
const RuntimeVendor& cuda_runtime();
const RuntimeVendor& hip_runtime();

struct EventRuntime {
  const RuntimeVendor* vendor = nullptr;
  std::string path;  // empty: not loaded

  int (*device_count)(int*) = nullptr;
  int (*get_device)(int*) = nullptr;
  int (*set_device)(int) = nullptr;
  int (*event_create)(Event*, unsigned flags) = nullptr;
  int (*event_record)(Event, Stream) = nullptr;
  int (*event_query)(Event) = nullptr;
  int (*event_synchronize)(Event) = nullptr;
  int (*event_elapsed)(float* ms, Event begin, Event end) = nullptr;
  int (*event_destroy)(Event) = nullptr;
  int (*device_synchronize)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*is_capturing)(Stream, int* status) = nullptr;

  // The message of a function that has failed. suffix: its name without the vendor's prefix.
  std::string failure(const char* suffix, int error) const;
  // The number of devices that can be used now; 0 and the reason if there is none.
  int usable_devices(std::string& problem) const;
};

// Loads a vendor's runtime, once in a process; see load_library(). Its variable names a file, or is
// empty to switch events off. Returns null and the reason if there is none. Any thread.
const EventRuntime* load_runtime(const RuntimeVendor& vendor,
                                 const std::vector<std::string>& candidates, std::string& problem);

// The stream on which the calling thread launches its work on a device: PyTorch's current stream
// if the process has loaded PyTorch's library of streams, else the default stream. Any thread.
Stream current_stream(const RuntimeVendor& vendor, int device);

}  // namespace cuda
FASTPROF_NAMESPACE_END
