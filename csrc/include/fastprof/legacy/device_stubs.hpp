// SPDX-License-Identifier: Apache-2.0
// DeviceStubs: interface of a device or annotation plug-in for the exclusive profiler, and the
// registry of plug-ins.
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

// A recorded device event; its actual type is private to the plug-in.
using DeviceEvent = std::shared_ptr<void>;

// Interface of one plug-in. Called concurrently from any profiling thread; implementations must
// lock shared data. Declare yours FASTPROF_HIDDEN or in an anonymous namespace: g++ warns if a
// class is more visible than its base. Virtual functions are append only, because libraries of one
// ABI major version share instances.
class DeviceStubs {
 public:
  virtual ~DeviceStubs() = default;

  // Records an event on the calling thread's current device and stream. Outputs: the device index
  // (>= 0), the event, and the CPU time of the recording (CLOCK_MONOTONIC, ns).
  virtual void record(int32_t* device_index, DeviceEvent* event, int64_t* cpu_ns) const = 0;

  // Returns the device time in us between two events of the same device. Waits for them to
  // complete.
  virtual double elapsed_us(const DeviceEvent& begin, const DeviceEvent& end) const = 0;

  // Annotates an instant.
  virtual void mark(const char* text) const = 0;

  // Opens and closes an annotated range of the calling thread; ranges of one thread nest.
  virtual void range_push(const char* text) const = 0;
  virtual void range_pop() const = 0;

  // Returns whether the plug-in is usable now (library found, device present).
  virtual bool enabled() const = 0;

  // Calls `action(index)` once per device with that device current, then restores the current
  // device.
  virtual void on_each_device(const std::function<void(int32_t)>& action) const = 0;

  // Waits until the current device has completed all submitted work.
  virtual void synchronize() const = 0;
};

// Kinds of plug-ins; one of each can be registered.
enum class DeviceStubsKind : uint8_t { CUDA = 0, NVTX = 1, ITT = 2, PRIVATEUSE1 = 3 };

constexpr size_t kNumDeviceStubsKinds = 4;

// Returns the enumerator's name. Static storage.
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

// Registers `stubs` as the plug-in of `kind`; null removes it. Returns the previous plug-in. The
// object must outlive every profiler enabled with it and every event it recorded. Raises ValueError
// if `kind` is not an enumerator. Any thread. The registry is process-wide: a plug-in library
// serves all other libraries.
inline const DeviceStubs* register_device_stubs(DeviceStubsKind kind, const DeviceStubs* stubs) {
  const size_t index = legacy_detail::checked_index(kind);
  // Release; partner: the acquire load in device_stubs(). A reader sees the object as registered.
  return static_cast<const DeviceStubs*>(
      __atomic_exchange_n(&process_primitives()->device_stubs[index],
                          static_cast<const void*>(stubs), __ATOMIC_ACQ_REL));
}

// Returns the plug-in of `kind`, or null. Raises ValueError if `kind` is not an enumerator. Any
// thread.
inline const DeviceStubs* device_stubs(DeviceStubsKind kind) {
  const size_t index = legacy_detail::checked_index(kind);
  const ProcessPrimitives* process = existing_process_primitives();
  if (process == nullptr) return nullptr;
  return static_cast<const DeviceStubs*>(load_acquire(&process->device_stubs[index]));
}

// Returns the plug-in that a profiler in `state` needs; null if it needs none. Raises
// UnavailableError, naming the missing plug-in, if it is not registered or not enabled.
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
