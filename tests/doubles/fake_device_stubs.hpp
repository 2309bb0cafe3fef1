// SPDX-License-Identifier: Apache-2.0
// FakeDeviceStubs: a device plug-in without a device. Its clock advances 10 us per recorded event,
// one clock per device; every call is written down.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fastprof/legacy/device_stubs.hpp"
#include "fastprof/recorder/state/clock.hpp"

namespace doubles {

struct FakeDeviceEvent {
  int32_t device_index;
  double device_us;
};

class FASTPROF_HIDDEN FakeDeviceStubs : public fastprof::DeviceStubs {
 public:
  static constexpr double kStepUs = 10;

  explicit FakeDeviceStubs(int32_t device_count = 1)
      : now_us_(static_cast<size_t>(device_count), 1000.0) {}

  void record(int32_t* device_index, fastprof::DeviceEvent* event, int64_t* cpu_ns) const override {
    const std::lock_guard<std::mutex> guard(lock_);
    double& now_us = now_us_[static_cast<size_t>(current_)];
    now_us += kStepUs;
    *device_index = current_;
    *event = std::make_shared<FakeDeviceEvent>(FakeDeviceEvent{current_, now_us});
    *cpu_ns = fastprof::clock_ns(CLOCK_MONOTONIC);
    calls_.push_back("record " + std::to_string(current_));
  }
  double elapsed_us(const fastprof::DeviceEvent& begin,
                    const fastprof::DeviceEvent& end) const override {
    return static_cast<const FakeDeviceEvent*>(end.get())->device_us -
           static_cast<const FakeDeviceEvent*>(begin.get())->device_us;
  }
  void mark(const char* text) const override { note(std::string("mark ") + text); }
  void range_push(const char* text) const override { note(std::string("push ") + text); }
  void range_pop() const override { note("pop"); }
  bool enabled() const override { return is_enabled; }
  void on_each_device(const std::function<void(int32_t)>& action) const override {
    const int32_t before = current_;
    for (int32_t i = 0; i < static_cast<int32_t>(now_us_.size()); ++i) {
      current_ = i;
      action(i);
    }
    current_ = before;
  }
  void synchronize() const override { note("synchronize " + std::to_string(current_)); }

  // Makes `index` the device that later events are recorded on.
  void set_current(int32_t index) { current_ = index; }

  // The calls so far, in order; they are forgotten.
  std::vector<std::string> take_calls() const {
    const std::lock_guard<std::mutex> guard(lock_);
    std::vector<std::string> taken;
    taken.swap(calls_);
    return taken;
  }

  bool is_enabled = true;

 private:
  void note(const std::string& call) const {
    const std::lock_guard<std::mutex> guard(lock_);
    calls_.push_back(call);
  }

  mutable std::mutex lock_;
  mutable std::vector<double> now_us_;
  mutable std::vector<std::string> calls_;
  mutable int32_t current_ = 0;
};

// Registers stubs for the life of a scope.
class FASTPROF_HIDDEN RegisteredStubs {
 public:
  RegisteredStubs(fastprof::DeviceStubsKind kind, const fastprof::DeviceStubs* stubs)
      : kind_(kind), before_(fastprof::register_device_stubs(kind, stubs)) {}
  ~RegisteredStubs() { fastprof::register_device_stubs(kind_, before_); }
  RegisteredStubs(const RegisteredStubs&) = delete;
  RegisteredStubs& operator=(const RegisteredStubs&) = delete;

 private:
  fastprof::DeviceStubsKind kind_;
  const fastprof::DeviceStubs* before_;
};

}  // namespace doubles
