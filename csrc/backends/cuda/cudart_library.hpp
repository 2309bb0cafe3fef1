// SPDX-License-Identifier: Apache-2.0
// CudartLibrary: the part of the CUDA runtime's interface that times ranges by events, declared by
// us and found at run time. cudart_check.cpp compares it with NVIDIA's header.
#pragma once

#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {

using Event = void*;   // cudaEvent_t
using Stream = void*;  // cudaStream_t; null: the default stream

// cudaError_t and cudaStreamCaptureStatus.
constexpr int kSuccess = 0, kNotReady = 600;
constexpr int kCaptureNone = 0;
constexpr unsigned kTimedEvent = 0;  // cudaEventDefault: with a time

struct CudartLibrary {
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

  // The text of an error, for messages.
  std::string text_of(int error) const;
  // The number of devices that can be used now; 0 and the reason if there is none.
  int usable_devices(std::string& problem) const;
};

// Loads libcudart, once in a process; see load_library(). FASTPROF_CUDART_LIBRARY names a file, or
// is empty to switch events off. Returns null and the reason if there is none. Any thread.
const CudartLibrary* load_cudart(const std::vector<std::string>& candidates, std::string& problem);

// The stream on which the calling thread launches its work on a device: PyTorch's current stream
// if the process has loaded PyTorch's CUDA library, else the default stream. Any thread.
Stream current_stream(int device);

}  // namespace cuda
FASTPROF_NAMESPACE_END
