// SPDX-License-Identifier: Apache-2.0
// Compiled by a test against PyTorch's genuine headers, to prove how current_stream() calls
// PyTorch: the layout here, the names of the functions by what this file refers to.
#include <c10/cuda/CUDAStream.h>

#include <type_traits>

static_assert(sizeof(c10::cuda::CUDAStream) == 16 &&
                  std::is_trivially_copyable_v<c10::cuda::CUDAStream> &&
                  std::is_trivially_destructible_v<c10::cuda::CUDAStream>,
              "returned in two registers");

cudaStream_t stream_of(c10::DeviceIndex device) {
  return c10::cuda::getCurrentCUDAStream(device).stream();
}
