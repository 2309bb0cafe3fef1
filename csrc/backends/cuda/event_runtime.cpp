// SPDX-License-Identifier: Apache-2.0
// Loads the runtime of CUDA or HIP, and finds PyTorch's current stream: see event_runtime.hpp.
#include "backends/cuda/event_runtime.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "core/library_search.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {
namespace {

using devices::find_function;

// c10::cuda::CUDAStream: 16 bytes that a function returns in two registers (a test asks
// PyTorch's headers: tests/doubles/cuda/torch_stream_check.cpp). PyTorch for HIP is compiled from
// the same source, up to PyTorch 2.10 with these names changed to c10::hip::HIPStream.
struct TorchStream {
  int64_t device, id;
};
struct TorchStreams {
  TorchStream (*current)(int8_t device) = nullptr;
  Stream (*handle)(const TorchStream*) = nullptr;
};
constexpr std::pair<const char*, const char*> kCudaStreams = {
    "_ZN3c104cuda20getCurrentCUDAStreamEa", "_ZNK3c104cuda10CUDAStream6streamEv"};
using FoundStreams = std::atomic<const TorchStreams*>;

// Returns one object for each vendor, never destroyed: events may be freed while the process exits.
template <class Type>
Type& of_vendor(const RuntimeVendor& vendor) {
  static Type* const both = new Type[2]{};
  return both[&vendor == &hip_runtime() ? 1 : 0];
}

std::string bind(void* handle, EventRuntime& runtime) {
  std::string missing;
  const auto need = [&](const char* suffix, auto& function) {
    const std::string name = runtime.vendor->prefix + std::string(suffix);
    if (!find_function(handle, name.c_str(), function) && missing.empty()) missing = name;
  };
  need("GetDeviceCount", runtime.device_count);
  need("GetDevice", runtime.get_device);
  need("SetDevice", runtime.set_device);
  need("EventCreateWithFlags", runtime.event_create);
  need("EventRecord", runtime.event_record);
  need("EventQuery", runtime.event_query);
  need("EventSynchronize", runtime.event_synchronize);
  need("EventElapsedTime", runtime.event_elapsed);
  need("EventDestroy", runtime.event_destroy);
  need("DeviceSynchronize", runtime.device_synchronize);
  need("GetErrorString", runtime.error_string);
  need("StreamIsCapturing", runtime.is_capturing);
  return missing;
}

// Returns PyTorch's functions once its library is loaded; null before.
const TorchStreams* torch_streams(const RuntimeVendor& vendor) {
  FoundStreams& found = of_vendor<FoundStreams>(vendor);
  if (const TorchStreams* const known = found.load(std::memory_order_acquire)) return known;
  void* const handle = ::dlopen(vendor.torch_library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  for (const auto& [current, stream_handle] : vendor.torch_functions) {
    TorchStreams streams;
    if (!find_function(handle, current, streams.current) ||
        !find_function(handle, stream_handle, streams.handle))
      continue;
    const auto* const kept = new TorchStreams(streams);  // never freed; two threads may make one
    found.store(kept, std::memory_order_release);
    return kept;
  }
  return nullptr;
}

}  // namespace

const RuntimeVendor& cuda_runtime() {
  static const RuntimeVendor* const only =
      new RuntimeVendor{"CUDA",
                        "CUDA events",
                        "cuda",
                        "FASTPROF_CUDART_LIBRARY",
                        "libcudart",
                        {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"},
                        {"CUDA_HOME", "CUDA_PATH"},
                        {"/lib64/libcudart.so"},
                        "the package nvidia-cuda-runtime of your CUDA version",
                        "libc10_cuda.so",
                        {kCudaStreams}};
  return *only;
}

const RuntimeVendor& hip_runtime() {
  static const RuntimeVendor* const only = new RuntimeVendor{
      "HIP",
      "HIP events",
      "hip",
      "FASTPROF_HIP_LIBRARY",
      "libamdhip64",
      {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"},
      {"ROCM_PATH", "ROCM_HOME", "HIP_PATH"},
      {"/lib/libamdhip64.so"},
      "ROCm",
      "libc10_hip.so",
      {{"_ZN3c103hip19getCurrentHIPStreamEa", "_ZNK3c103hip9HIPStream6streamEv"}, kCudaStreams}};
  return *only;
}

std::string EventRuntime::failure(const char* suffix, int error) const {
  const char* const text = error_string(error);
  return vendor->prefix + std::string(suffix) +
         " failed: " + (text != nullptr ? text : "unknown error") + " (" + std::to_string(error) +
         ")";
}

int EventRuntime::usable_devices(std::string& problem) const {
  int count = 0;
  const int error = device_count(&count);
  if (error == kSuccess && count > 0) return count;
  problem = vendor->device + std::string("'s runtime finds no device");
  if (error != kSuccess) problem += ": " + failure("GetDeviceCount", error);
  return 0;
}

const EventRuntime* load_runtime(const RuntimeVendor& vendor,
                                 const std::vector<std::string>& candidates, std::string& problem) {
  return of_vendor<devices::LoadedOnce<EventRuntime>>(vendor).get(
      [&] {
        return devices::LibrarySearch{vendor.variable, vendor.sonames,       candidates,
                                      vendor.toolkit,  vendor.below_toolkit, vendor.library,
                                      vendor.device,   vendor.install};
      },
      [&vendor](void* handle, EventRuntime& runtime) {
        runtime.vendor = &vendor;
        return bind(handle, runtime);
      },
      [&vendor](EventRuntime& runtime) {
        runtime.path = devices::path_of_function(reinterpret_cast<void*>(runtime.event_record),
                                                 vendor.library);
        return std::string();
      },
      problem);
}

Stream current_stream(const RuntimeVendor& vendor, int device) {
  const TorchStreams* const streams = torch_streams(vendor);
  if (streams == nullptr) return nullptr;
  const TorchStream stream = streams->current(static_cast<int8_t>(device));
  return streams->handle(&stream);
}

}  // namespace cuda
FASTPROF_NAMESPACE_END
