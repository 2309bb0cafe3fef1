// SPDX-License-Identifier: Apache-2.0
// A double of PyTorch's libc10_cuda: the current stream of each device and thread, by the functions
// of that name and ABI, which torch_stream_check.cpp compares with PyTorch's header.
#include <cstdint>

#define VISIBLE __attribute__((visibility("default")))

namespace c10::cuda {

class VISIBLE CUDAStream {
 public:
  void* stream() const;
  int64_t device = 0, id = 0;
};

namespace {
thread_local int64_t t_current[8] = {};
}

void* CUDAStream::stream() const {
  return reinterpret_cast<void*>(id);
}

VISIBLE CUDAStream getCurrentCUDAStream(int8_t device) {
  CUDAStream stream;
  stream.device = device < 0 ? 0 : device;
  stream.id = t_current[stream.device];
  return stream;
}

}  // namespace c10::cuda

// Makes a stream the current one of a device on this thread.
extern "C" VISIBLE void fake_set_current_stream(int device, int64_t stream) {
  c10::cuda::t_current[device] = stream;
}
