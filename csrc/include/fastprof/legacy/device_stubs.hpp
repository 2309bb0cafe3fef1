// SPDX-License-Identifier: Apache-2.0
// DeviceStubs: what a device or annotation plug-in implements to be driven by the exclusive
// profiler, and the registry it is found in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy/profiler_config.hpp"
#include "fastprof/primitives/process_primitives.hpp"

FASTPROF_NAMESPACE_BEGIN

// A recorded device event. Its type is the stubs' business.
using DeviceEvent = std::shared_ptr<void>;

// The calls into one plug-in. Called from any thread that profiles, at the same time; an
// implementation locks what it shares. Declare yours FASTPROF_HIDDEN or in an anonymous namespace:
// g++ warns about a class that is more visible than its base. Virtual functions are only appended
// (libraries of one ABI major share instances).
class DeviceStubs {
 public:
  virtual ~DeviceStubs() = default;

  // Records an event on the calling thread's current device and stream: stores the device's index
  // (>= 0), the event, and the CPU time of the recording (CLOCK_MONOTONIC, ns).
  virtual void record(int32_t* device_index, DeviceEvent* event, int64_t* cpu_ns) const = 0;

  // Microseconds of device time between two events of the same device; waits for them when they are
  // not reached.
  virtual double elapsed_us(const DeviceEvent& begin, const DeviceEvent& end) const = 0;

  // Annotates an instant.
  virtual void mark(const char* text) const = 0;

  // Opens and closes an annotated range of the calling thread; ranges of one thread nest.
  virtual void range_push(const char* text) const = 0;
  virtual void range_pop() const = 0;

  // Whether the plug-in can be used now (library found, device present).
  virtual bool enabled() const = 0;

  // Calls `action(index)` once per device, with that device current, and restores the current
  // device.
  virtual void on_each_device(const std::function<void(int32_t)>& action) const = 0;

  // Waits until the current device has finished everything submitted to it.
  virtual void synchronize() const = 0;
};

// The places a plug-in can take.
enum class DeviceStubsKind : uint8_t { CUDA = 0, NVTX = 1, ITT = 2, PRIVATEUSE1 = 3 };

constexpr size_t kNumDeviceStubsKinds = 4;

// The enumerator's name. Static storage.
inline const char* device_stubs_kind_name(DeviceStubsKind kind) noexcept {
  constexpr const char* names[kNumDeviceStubsKinds] = {"CUDA", "NVTX", "ITT", "PRIVATEUSE1"};
  const auto index = static_cast<size_t>(kind);
  return index < kNumDeviceStubsKinds ? names[index] : "unknown";
}

namespace legacy_detail {

inline size_t checked_index(DeviceStubsKind kind) {
  const auto index = static_cast<size_t>(kind);
  if (index >= kNumDeviceStubsKinds)
    raise<ValueError>("unknown DeviceStubsKind " + std::to_string(index) +
                      "; use CUDA, NVTX, ITT or PRIVATEUSE1");
  return index;
}

}  // namespace legacy_detail

// Makes `stubs` the plug-in of `kind`, replacing what was there; null removes it. Returns what was
// there before. The object must outlive every profiler that was enabled with it and every event it
// recorded. Any thread; the registry is the process's, so a plug-in library serves all others.
inline const DeviceStubs* register_device_stubs(DeviceStubsKind kind, const DeviceStubs* stubs) {
  const size_t index = legacy_detail::checked_index(kind);
  // Release: whoever loads the pointer sees the object as it was when it was registered.
  return static_cast<const DeviceStubs*>(
      __atomic_exchange_n(&process_primitives()->device_stubs[index],
                          static_cast<const void*>(stubs), __ATOMIC_ACQ_REL));
}

// The plug-in of `kind`, or null. Any thread.
inline const DeviceStubs* device_stubs(DeviceStubsKind kind) {
  const size_t index = legacy_detail::checked_index(kind);
  const ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr) return nullptr;
  return static_cast<const DeviceStubs*>(load_acquire(&process->device_stubs[index]));
}

// The plug-in a profiler in `state` needs, ready for use; null for the states that need none.
// Raises UnavailableError naming what is missing.
inline const DeviceStubs* require_device_stubs(ProfilerState state) {
  DeviceStubsKind kind;
  switch (state) {
    case ProfilerState::CUDA:
      kind = DeviceStubsKind::CUDA;
      break;
    case ProfilerState::NVTX:
      kind = DeviceStubsKind::NVTX;
      break;
    case ProfilerState::ITT:
      kind = DeviceStubsKind::ITT;
      break;
    case ProfilerState::PRIVATEUSE1:
      kind = DeviceStubsKind::PRIVATEUSE1;
      break;
    default:
      return nullptr;
  }
  const std::string name = device_stubs_kind_name(kind);
  const DeviceStubs* stubs = device_stubs(kind);
  if (stubs == nullptr)
    raise<UnavailableError>(
        "Can't use the " + name + " profiler: no " + name +
        " stubs are registered. Load the plug-in that provides them, or call register_device_stubs("
        "DeviceStubsKind::" +
        name + ", ...) before enable_profiler; state CPU needs none");
  if (!stubs->enabled())
    raise<UnavailableError>("Can't use the " + name + " profiler: the registered " + name +
                            " stubs report that they are not enabled (library or device missing); "
                            "state CPU needs none");
  return stubs;
}

FASTPROF_NAMESPACE_END
