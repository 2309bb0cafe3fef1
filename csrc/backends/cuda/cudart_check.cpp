// SPDX-License-Identifier: Apache-2.0
// Compile-time check of cudart_library.hpp. Not part of the library: a test compiles it against the
// header of NVIDIA's runtime, of several CUDA versions.
#include <cuda_runtime_api.h>

#include <type_traits>

#include "backends/cuda/cudart_library.hpp"

namespace own = fastprof::cuda;

// Handles and pointers to them are pointers, enumerations are int.
template <class Ours, class Theirs>
constexpr bool fits() {
  if constexpr (std::is_pointer_v<Ours>)
    return std::is_pointer_v<Theirs>;
  else
    return sizeof(Ours) == sizeof(Theirs) &&
           (std::is_enum_v<Theirs> || std::is_same_v<Ours, Theirs>);
}
template <class... OurArguments, class OurResult, class... TheirArguments, class TheirResult>
constexpr bool same(OurResult (*)(OurArguments...), TheirResult (*)(TheirArguments...)) {
  if constexpr (sizeof...(OurArguments) != sizeof...(TheirArguments))
    return false;
  else
    return fits<OurResult, TheirResult>() && (fits<OurArguments, TheirArguments>() && ...);
}
#define SAME(field, function)                                                                 \
  static_assert(                                                                              \
      same(decltype(own::CudartLibrary::field){}, static_cast<decltype(&function)>(nullptr)), \
      #function)

SAME(device_count, cudaGetDeviceCount);
SAME(get_device, cudaGetDevice);
SAME(set_device, cudaSetDevice);
static_assert(same(decltype(own::CudartLibrary::event_create){},
                   static_cast<cudaError_t (*)(cudaEvent_t*, unsigned int)>(nullptr)));
SAME(event_query, cudaEventQuery);
SAME(event_synchronize, cudaEventSynchronize);
SAME(event_elapsed, cudaEventElapsedTime);
SAME(event_destroy, cudaEventDestroy);
SAME(device_synchronize, cudaDeviceSynchronize);
SAME(error_string, cudaGetErrorString);
SAME(is_capturing, cudaStreamIsCapturing);
static_assert(same(decltype(own::CudartLibrary::event_record){},
                   static_cast<cudaError_t (*)(cudaEvent_t, cudaStream_t)>(&cudaEventRecord)));
static_assert(own::kSuccess == cudaSuccess && own::kNotReady == cudaErrorNotReady &&
              own::kCaptureNone == cudaStreamCaptureStatusNone &&
              own::kTimedEvent == cudaEventDefault);
