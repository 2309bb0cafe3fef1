// SPDX-License-Identifier: Apache-2.0
// PluginStubs: the DeviceStubs of a device plug-in, for the exclusive profiler.
#pragma once

#include <string>

#include "backends/plugin/plugin_call.hpp"
#include "fastprof/device_plugin.h"
#include "fastprof/legacy/device_stubs.hpp"
#include "fastprof/recorder/state/clock.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {

// Thread-safe. A call that fails or throws has no effect: an event that was not recorded is null,
// and its range has no device time.
class FASTPROF_HIDDEN PluginStubs final : public DeviceStubs {
 public:
  // `plugin` has stubs, which have been checked, and lives as long as the process.
  explicit PluginStubs(const fastprof_device_plugin& plugin)
      : stubs_(*plugin.stubs), self_(plugin.self) {}

  void record(int32_t* device_index, DeviceEvent* event, int64_t* cpu_ns) const override {
    uint64_t handle = 0;
    int64_t at_ns = 0;
    int32_t device = -1;
    const bool recorded =
        succeeds([&] { return stubs_.record(self_, &device, &handle, &at_ns); }) && device >= 0;
    *device_index = recorded ? device : -1;
    *cpu_ns = recorded && at_ns > 0 ? at_ns : platform::monotonic_ns();
    *event = nullptr;
    if (!recorded) return;
    const auto* const stubs = &stubs_;
    void* const self = self_;
    event->reset(new uint64_t(handle), [stubs, self](void* memory) {
      const auto* const held = static_cast<uint64_t*>(memory);
      std::string thrown;
      call_plugin([&] { stubs->release(self, *held); }, thrown);
      delete held;
    });
  }

  double elapsed_us(const DeviceEvent& begin, const DeviceEvent& end) const override {
    double us = 0;
    const bool measured = succeeds([&] {
      return stubs_.elapsed_us(self_, *static_cast<const uint64_t*>(begin.get()),
                               *static_cast<const uint64_t*>(end.get()), &us);
    });
    constexpr double kMost = 1e15;  // also refuses NaN
    return measured && us > -kMost && us < kMost ? us : 0;
  }

  void mark(const char* text) const override { annotate(stubs_.mark, text); }
  void range_push(const char* text) const override { annotate(stubs_.range_push, text); }
  void range_pop() const override { annotate(stubs_.range_pop); }

  bool enabled() const override {
    if (stubs_.enabled == nullptr) return true;
    int usable = 0;
    std::string thrown;
    return call_plugin([&] { usable = stubs_.enabled(self_); }, thrown) && usable != 0;
  }

  void on_each_device(const std::function<void(int32_t)>& action) const override {
    succeeds([&] {
      return stubs_.on_each_device(
          self_,
          [](void* given, int32_t device) {
            (*static_cast<const std::function<void(int32_t)>*>(given))(device);
          },
          const_cast<std::function<void(int32_t)>*>(&action));
    });
  }

  void synchronize() const override {
    succeeds([&] { return stubs_.synchronize(self_); });
  }

 private:
  template <class Function>
  static bool succeeds(Function function) {
    int status = 1;
    std::string thrown;
    return call_plugin([&] { status = function(); }, thrown) && status == 0;
  }
  template <class Function, class... Texts>
  void annotate(Function function, Texts... texts) const {
    std::string thrown;
    if (function != nullptr) call_plugin([&] { function(self_, texts...); }, thrown);
  }

  const fastprof_device_stubs& stubs_;
  void* const self_;
};

}  // namespace plugins
FASTPROF_NAMESPACE_END
