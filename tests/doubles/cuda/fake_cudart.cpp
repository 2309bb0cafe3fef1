// SPDX-License-Identifier: Apache-2.0
// A double of libcudart's events and streams, for machines without a GPU. Built from NVIDIA's
// genuine header, which checks the prototypes.
//
// Devices have a clock of their own, which runs like the host's but began elsewhere. Work on a
// stream ends one after another, so that an event completes when the work before it has. It proves
// our reading of the documentation, not what the real library does.
//
//   FAKE_CUDART_DEVICES=N   number of devices (1)
//   FAKE_CUDART_FAIL="cudaEventRecord=700,..."   makes functions fail
//
// fake_cudart_work() and the others play the program.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct CUevent_st {
  int device = 0;
  bool recorded = false;
  int64_t at_ns = 0;  // on the device's clock
};

namespace {

struct Runtime {
  std::mutex lock;
  std::map<std::pair<int, cudaStream_t>, int64_t> busy_until_ns;
  std::set<cudaStream_t> capturing;
  size_t events = 0, created = 0;
};

Runtime& runtime() {
  static Runtime* const only = new Runtime;
  return *only;
}

thread_local int t_device = 0;

int devices() {
  const char* const text = std::getenv("FAKE_CUDART_DEVICES");
  return text != nullptr ? std::atoi(text) : 1;
}

cudaError_t failure(const char* function) {
  const char* const text = std::getenv("FAKE_CUDART_FAIL");
  const std::string wanted = std::string(function) + "=";
  const char* const at = text != nullptr ? std::strstr(text, wanted.c_str()) : nullptr;
  return at == nullptr ? cudaSuccess : static_cast<cudaError_t>(std::atoi(at + wanted.size()));
}
#define MAY_FAIL() \
  if (const cudaError_t code = failure(__func__); code != cudaSuccess) return code

// The clock of a device: each began at another time.
int64_t now_ns(int device) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() +
         1000000000000 * (device + 1);
}

// Requires the lock.
int64_t free_at_ns(Runtime& r, int device, cudaStream_t stream) {
  int64_t& busy = r.busy_until_ns[{device, stream}];
  return busy = std::max(busy, now_ns(device));
}

void wait_until(int device, int64_t at_ns) {
  const int64_t left_ns = at_ns - now_ns(device);
  if (left_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
}

}  // namespace

EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  MAY_FAIL();
  *count = devices();
  return devices() > 0 ? cudaSuccess : cudaErrorNoDevice;
}
EXPORT cudaError_t cudaGetDevice(int* device) {
  MAY_FAIL();
  *device = t_device;
  return cudaSuccess;
}
EXPORT cudaError_t cudaSetDevice(int device) {
  MAY_FAIL();
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  t_device = device;
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  MAY_FAIL();
  if (flags != cudaEventDefault) return cudaErrorInvalidValue;
  Runtime& r = runtime();
  const std::lock_guard<std::mutex> hold(r.lock);
  ++r.events;
  ++r.created;
  *event = new CUevent_st;
  (*event)->device = t_device;
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  MAY_FAIL();
  Runtime& r = runtime();
  const std::lock_guard<std::mutex> hold(r.lock);
  --r.events;
  delete event;
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  MAY_FAIL();
  Runtime& r = runtime();
  const std::lock_guard<std::mutex> hold(r.lock);
  // An event belongs to the device for which it was made.
  if (event == nullptr || event->device != t_device) return cudaErrorInvalidResourceHandle;
  if (r.capturing.count(stream) != 0) return cudaErrorStreamCaptureUnsupported;
  event->recorded = true;
  event->at_ns = free_at_ns(r, t_device, stream);
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  MAY_FAIL();
  return event->at_ns <= now_ns(event->device) ? cudaSuccess : cudaErrorNotReady;
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  MAY_FAIL();
  wait_until(event->device, event->at_ns);
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  MAY_FAIL();
  if (!begin->recorded || !end->recorded || begin->device != end->device)
    return cudaErrorInvalidResourceHandle;
  const int64_t now = now_ns(begin->device);
  if (begin->at_ns > now || end->at_ns > now) return cudaErrorNotReady;
  *ms = static_cast<float>(static_cast<double>(end->at_ns - begin->at_ns) / 1e6);
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceSynchronize() {
  MAY_FAIL();
  int64_t last = 0;
  {
    Runtime& r = runtime();
    const std::lock_guard<std::mutex> hold(r.lock);
    for (const auto& [queue, busy] : r.busy_until_ns)
      if (queue.first == t_device) last = std::max(last, busy);
  }
  wait_until(t_device, last);
  return cudaSuccess;
}
EXPORT const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNotReady ? "device not ready" : "a failure of the double";
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  MAY_FAIL();
  Runtime& r = runtime();
  const std::lock_guard<std::mutex> hold(r.lock);
  *status =
      r.capturing.count(stream) != 0 ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

// ---- the program

// Launches work of `ns` on a stream of the current device.
EXPORT void fake_cudart_work(void* stream, int64_t ns) {
  Runtime& r = runtime();
  const std::lock_guard<std::mutex> hold(r.lock);
  const auto handle = static_cast<cudaStream_t>(stream);
  r.busy_until_ns[{t_device, handle}] = free_at_ns(r, t_device, handle) + ns;
}
EXPORT void fake_cudart_capture(void* stream, int on) {
  Runtime& r = runtime();
  const std::lock_guard<std::mutex> hold(r.lock);
  if (on != 0)
    r.capturing.insert(static_cast<cudaStream_t>(stream));
  else
    r.capturing.erase(static_cast<cudaStream_t>(stream));
}
// Events that were made and that exist.
EXPORT size_t fake_cudart_events_created() {
  Runtime& r = runtime();
  const std::lock_guard<std::mutex> hold(r.lock);
  return r.created;
}
