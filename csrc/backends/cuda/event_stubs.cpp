// SPDX-License-Identifier: Apache-2.0
// DeviceStubs on events: see event_stubs.hpp.
#include "backends/cuda/event_stubs.hpp"

#include <unistd.h>

#include <utility>

#include "backends/cuda/event_pool.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/legacy/device_stubs.hpp"
#include "fastprof/recorder/state/clock.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cuda {
namespace {

class EventStubs final : public DeviceStubs {
 public:
  EventStubs(const RuntimeVendor& vendor, std::vector<std::string> candidates)
      : vendor_(vendor), candidates_(std::move(candidates)) {}

  void record(int32_t* device_index, DeviceEvent* event, int64_t* cpu_ns) const override {
    EventPool& events = pool();
    // Read before the event is recorded: the CPU time must not be later than the event.
    *cpu_ns = platform::monotonic_ns();
    int device = -1;
    std::shared_ptr<RecordedEvent> recorded = events.record(&device);
    *device_index = recorded != nullptr ? device : -1;
    *event = std::move(recorded);
  }

  double elapsed_us(const DeviceEvent& begin, const DeviceEvent& end) const override {
    return pool().elapsed_us(*static_cast<const RecordedEvent*>(begin.get()),
                             *static_cast<const RecordedEvent*>(end.get()));
  }

  // Annotations are emitted by the stubs of NVTX.
  void mark(const char*) const override {}
  void range_push(const char*) const override {}
  void range_pop() const override {}

  bool enabled() const override {
    if (::getpid() != pid_) return false;  // neither runtime can be used in a forked child
    std::string problem;
    EventPool* const events = event_pool(vendor_, candidates_, problem);
    return events != nullptr && events->runtime().usable_devices(problem) > 0;
  }

  void on_each_device(const std::function<void(int32_t)>& action) const override {
    const EventRuntime& runtime = pool().runtime();
    std::string problem;
    const int count = runtime.usable_devices(problem);
    int before = 0;
    check(runtime.get_device(&before), "GetDevice");
    struct Restore {
      const EventRuntime& runtime;
      int device;
      ~Restore() { runtime.set_device(device); }
    } const restore{runtime, before};
    for (int device = 0; device < count; ++device) {
      check(runtime.set_device(device), "SetDevice");
      action(device);
    }
  }

  void synchronize() const override {
    check(pool().runtime().device_synchronize(), "DeviceSynchronize");
  }

 private:
  EventPool& pool() const {
    std::string problem;
    EventPool* const events = event_pool(vendor_, candidates_, problem);
    if (events == nullptr)
      raise<UnavailableError>(vendor_.device + ("'s runtime cannot be used: " + problem));
    return *events;
  }
  void check(int error, const char* suffix) const {
    if (error != kSuccess) raise<Error>(pool().runtime().failure(suffix, error));
  }

  const RuntimeVendor& vendor_;
  const std::vector<std::string> candidates_;
  const pid_t pid_ = ::getpid();
};

}  // namespace

void register_event_stubs(const RuntimeVendor& vendor, std::vector<std::string> candidates) {
  if (device_stubs(DeviceStubsKind::CUDA) != nullptr) return;
  // Never destroyed: records refer to it.
  static const EventStubs* const only = new EventStubs(vendor, std::move(candidates));
  if (device_stubs(DeviceStubsKind::CUDA) == nullptr)
    register_device_stubs(DeviceStubsKind::CUDA, only);
}

}  // namespace cuda
FASTPROF_NAMESPACE_END
