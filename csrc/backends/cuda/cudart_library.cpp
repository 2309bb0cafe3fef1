// SPDX-License-Identifier: Apache-2.0
// Loads libcudart, and finds PyTorch's current stream: see cudart_library.hpp.
#include "backends/cuda/cudart_library.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "backends/cuda/library_search.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {
namespace {

std::string bind(void* handle, CudartLibrary& library) {
  const char* missing = "";
  const auto need = [&](const char* name, auto& function) {
    if (!find_function(handle, name, function) && *missing == 0) missing = name;
  };
  need("cudaGetDeviceCount", library.device_count);
  need("cudaGetDevice", library.get_device);
  need("cudaSetDevice", library.set_device);
  need("cudaEventCreateWithFlags", library.event_create);
  need("cudaEventRecord", library.event_record);
  need("cudaEventQuery", library.event_query);
  need("cudaEventSynchronize", library.event_synchronize);
  need("cudaEventElapsedTime", library.event_elapsed);
  need("cudaEventDestroy", library.event_destroy);
  need("cudaDeviceSynchronize", library.device_synchronize);
  need("cudaGetErrorString", library.error_string);
  need("cudaStreamIsCapturing", library.is_capturing);
  return missing;
}

// c10::cuda::CUDAStream: 16 bytes that a function returns in two registers (a test asks
// PyTorch's headers: tests/doubles/cuda/torch_stream_check.cpp).
struct TorchStream {
  int64_t device, id;
};
struct TorchStreams {
  TorchStream (*current)(int8_t device) = nullptr;  // c10::cuda::getCurrentCUDAStream
  Stream (*handle)(const TorchStream*) = nullptr;   // c10::cuda::CUDAStream::stream
};

// Returns PyTorch's functions once its library is loaded; null before.
const TorchStreams* torch_streams() {
  static std::atomic<const TorchStreams*> found{nullptr};
  if (const TorchStreams* const known = found.load(std::memory_order_acquire)) return known;
  void* const handle = ::dlopen("libc10_cuda.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  auto* const streams = new TorchStreams;  // never freed; two threads may both make one
  if (!find_function(handle, "_ZN3c104cuda20getCurrentCUDAStreamEa", streams->current) ||
      !find_function(handle, "_ZNK3c104cuda10CUDAStream6streamEv", streams->handle)) {
    delete streams;
    return nullptr;
  }
  found.store(streams, std::memory_order_release);
  return streams;
}

}  // namespace

std::string CudartLibrary::text_of(int error) const {
  const char* const text = error_string(error);
  return std::string(text != nullptr ? text : "unknown error") + " (" + std::to_string(error) + ")";
}

int CudartLibrary::usable_devices(std::string& problem) const {
  int count = 0;
  const int error = device_count(&count);
  if (error == kSuccess && count > 0) return count;
  problem = error == kSuccess ? "CUDA's runtime finds no device"
                              : "CUDA's runtime finds no device: " + text_of(error);
  return 0;
}

const CudartLibrary* load_cudart(const std::vector<std::string>& candidates, std::string& problem) {
  struct Loaded {
    std::mutex lock;
    bool tried = false;
    std::string problem;
    CudartLibrary library;
  };
  static Loaded* const only = new Loaded;  // events may be freed while the process exits
  const std::lock_guard<std::mutex> hold(only->lock);
  if (!only->tried) {
    const LibrarySearch search{
        "FASTPROF_CUDART_LIBRARY",
        {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"},
        candidates,
        {"/lib64/libcudart.so"},
        "libcudart",
        "nvidia-cuda-runtime"};
    CudartLibrary library;
    if (load_library(
            search, [&library](void* handle) { return bind(handle, library); }, only->problem)) {
      library.path = path_of_function(reinterpret_cast<void*>(library.event_record), "libcudart");
      only->library = library;
    }
    only->tried = true;
  }
  if (!only->library.path.empty()) return &only->library;
  problem = only->problem;
  return nullptr;
}

Stream current_stream(int device) {
  const TorchStreams* const streams = torch_streams();
  if (streams == nullptr) return nullptr;
  const TorchStream stream = streams->current(static_cast<int8_t>(device));
  return streams->handle(&stream);
}

}  // namespace cuda
FASTPROF_NAMESPACE_END
