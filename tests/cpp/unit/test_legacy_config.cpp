// SPDX-License-Identifier: Apache-2.0
// ProfilerConfig, the registry of device stubs, and the time between two records.
#include "../../doubles/fake_device_stubs.hpp"
#include "../legacy_checks.hpp"
#include "fastprof/legacy/device_times.hpp"
#include "fastprof/legacy/profiler_config.hpp"
#include "fastprof/legacy/range_event_list.hpp"

using namespace fastprof;

TEST(stubs_are_registered_replaced_and_removed_by_kind) {
  doubles::FakeDeviceStubs first, second;
  CHECK(device_stubs(DeviceStubsKind::ITT) == nullptr);
  CHECK(register_device_stubs(DeviceStubsKind::ITT, &first) == nullptr);
  CHECK(device_stubs(DeviceStubsKind::ITT) == &first);
  CHECK(device_stubs(DeviceStubsKind::NVTX) == nullptr);
  CHECK(register_device_stubs(DeviceStubsKind::ITT, &second) == &first);
  CHECK(register_device_stubs(DeviceStubsKind::ITT, nullptr) == &second);
  CHECK(device_stubs(DeviceStubsKind::ITT) == nullptr);
  CHECK_MESSAGE(ValueError, "unknown DeviceStubsKind 4",
                device_stubs(static_cast<DeviceStubsKind>(4)));
  CHECK_MESSAGE(ValueError, "unknown DeviceStubsKind 4",
                register_device_stubs(static_cast<DeviceStubsKind>(4), &first));
}

TEST(asking_for_missing_stubs_says_what_is_missing) {
  CHECK(require_device_stubs(ProfilerState::CPU) == nullptr);
  CHECK(require_device_stubs(ProfilerState::Disabled) == nullptr);
  const struct {
    ProfilerState state;
    DeviceStubsKind kind;
    const char* name;
  } rows[] = {{ProfilerState::CUDA, DeviceStubsKind::CUDA, "CUDA"},
              {ProfilerState::NVTX, DeviceStubsKind::NVTX, "NVTX"},
              {ProfilerState::ITT, DeviceStubsKind::ITT, "ITT"},
              {ProfilerState::PRIVATEUSE1, DeviceStubsKind::PRIVATEUSE1, "PRIVATEUSE1"}};
  for (const auto& row : rows) {
    const std::string name = row.name;
    CHECK_EQ(std::string(device_stubs_kind_name(row.kind)), name);
    CHECK_MESSAGE(UnavailableError,
                  "Can't use the " + name + " profiler: no " + name + " stubs are registered",
                  require_device_stubs(row.state));
    doubles::FakeDeviceStubs stubs;
    const doubles::RegisteredStubs registered(row.kind, &stubs);
    CHECK(require_device_stubs(row.state) == &stubs);
    stubs.is_enabled = false;
    CHECK_MESSAGE(UnavailableError, "not enabled", require_device_stubs(row.state));
  }
}

TEST(device_time_of_local_records_is_the_stubs) {
  doubles::FakeDeviceStubs stubs(2);
  LegacyEvent begin, end, other, none;
  begin.record(&stubs);
  end.record(&stubs);
  stubs.set_current(1);
  other.record(&stubs);
  none.record(nullptr);
  CHECK(begin.has_device_event() && !none.has_device_event());
  CHECK(begin.cpu_ns > 0 && none.cpu_ns > 0);
  CHECK_EQ(begin.device_elapsed_us(end), doubles::FakeDeviceStubs::kStepUs);
  CHECK_MESSAGE(ValueError, "Events were not recorded for a device", begin.device_elapsed_us(none));
  CHECK_MESSAGE(ValueError, "Events were not recorded for a device", none.device_elapsed_us(begin));
  CHECK_MESSAGE(ValueError, "Events are not on the same device: 0 vs 1",
                begin.device_elapsed_us(other));
}

TEST(device_time_of_remote_records_is_the_stored_difference) {
  LegacyEvent begin, end;
  begin.is_remote = end.is_remote = true;
  begin.device_index = end.device_index = 2;
  begin.device_us = 30;
  end.device_us = 45;
  CHECK_EQ(begin.device_elapsed_us(end), 15.0);
  CHECK_EQ(end.device_elapsed_us(begin), -15.0);
  end.device_us = 0;
  CHECK_EQ(begin.device_elapsed_us(end), -30.0);
  CHECK_EQ(end.device_elapsed_us(begin), 30.0);
  end.device_us = -1;
  CHECK_MESSAGE(ValueError, "device_us is negative", begin.device_elapsed_us(end));
  CHECK_MESSAGE(ValueError, "device_us is negative", end.device_elapsed_us(begin));
  doubles::FakeDeviceStubs stubs(3);
  stubs.set_current(2);
  LegacyEvent local;
  local.record(&stubs);
  CHECK_MESSAGE(ValueError, "one event is remote and the other is not",
                begin.device_elapsed_us(local));
}

TEST(device_times_count_from_the_first_event_of_each_device) {
  doubles::FakeDeviceStubs stubs(2);
  DeviceTimes times;
  const int32_t devices[] = {1, 0, 1, 0, 1};
  const int64_t expected_us[] = {0, 0, 10, 10, 20};
  for (size_t i = 0; i < 5; ++i) {
    LegacyEvent event;
    stubs.set_current(devices[i]);
    event.record(&stubs);
    CHECK_EQ(times.device_us(event), expected_us[i]);
  }
  CHECK_EQ(times.device_us(LegacyEvent()), -1);
}
