// SPDX-License-Identifier: Apache-2.0
// Compile-time check of event_runtime.hpp. Not part of the library: a test compiles it against the
// header of NVIDIA's runtime, of several CUDA versions; and, with FASTPROF_CHECK_HIP, of HIP's.
#ifdef FASTPROF_CHECK_HIP
#include <hip/hip_runtime_api.h>
#define RUNTIME(name) hip##name
#else
#include <cuda_runtime_api.h>
#define RUNTIME(name) cuda##name
#endif

#include <type_traits>

#include "backends/cuda/event_runtime.hpp"

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
#define SAME(field, function)                                             \
  static_assert(same(decltype(own::EventRuntime::field){},                \
                     static_cast<decltype(&RUNTIME(function))>(nullptr)), \
                #function)

SAME(device_count, GetDeviceCount);
SAME(get_device, GetDevice);
SAME(set_device, SetDevice);
static_assert(same(decltype(own::EventRuntime::event_create){},
                   static_cast<RUNTIME(Error_t) (*)(RUNTIME(Event_t) *, unsigned int)>(nullptr)));
SAME(event_query, EventQuery);
SAME(event_synchronize, EventSynchronize);
SAME(event_elapsed, EventElapsedTime);
SAME(event_destroy, EventDestroy);
SAME(device_synchronize, DeviceSynchronize);
SAME(error_string, GetErrorString);
SAME(is_capturing, StreamIsCapturing);
static_assert(same(
    decltype(own::EventRuntime::event_record){},
    static_cast<RUNTIME(Error_t) (*)(RUNTIME(Event_t), RUNTIME(Stream_t))>(&RUNTIME(EventRecord))));
static_assert(own::kSuccess == RUNTIME(Success) && own::kNotReady == RUNTIME(ErrorNotReady) &&
              own::kCaptureNone == RUNTIME(StreamCaptureStatusNone) &&
              own::kTimedEvent == RUNTIME(EventDefault));
