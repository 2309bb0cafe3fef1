// SPDX-License-Identifier: Apache-2.0
// ProfilerConfig, the registry of device stubs, and the time between two records.
#include "../../doubles/fake_device_stubs.hpp"
#include "../legacy_checks.hpp"
#include "fastprof/legacy/device_times.hpp"
#include "fastprof/legacy/profiler_config.hpp"
#include "fastprof/legacy/range_event_list.hpp"

using namespace fastprof;

TEST(states_keep_their_names_numbers_and_types) {
  const struct {
    ProfilerState state;
    const char* name;
    ActiveProfilerType type;
  } expected[] = {
      {ProfilerState::Disabled, "Disabled", ActiveProfilerType::NONE},
      {ProfilerState::CPU, "CPU", ActiveProfilerType::LEGACY},
      {ProfilerState::CUDA, "CUDA", ActiveProfilerType::LEGACY},
      {ProfilerState::NVTX, "NVTX", ActiveProfilerType::NVTX},
      {ProfilerState::ITT, "ITT", ActiveProfilerType::ITT},
      {ProfilerState::PRIVATEUSE1, "PRIVATEUSE1", ActiveProfilerType::PRIVATEUSE1},
      {ProfilerState::KINETO, "KINETO", ActiveProfilerType::KINETO},
      {ProfilerState::KINETO_GPU_FALLBACK, "KINETO_GPU_FALLBACK", ActiveProfilerType::KINETO},
      {ProfilerState::KINETO_PRIVATEUSE1_FALLBACK, "KINETO_PRIVATEUSE1_FALLBACK",
       ActiveProfilerType::KINETO},
      {ProfilerState::KINETO_PRIVATEUSE1, "KINETO_PRIVATEUSE1", ActiveProfilerType::KINETO},
      {ProfilerState::KINETO_ONDEMAND, "KINETO_ONDEMAND", ActiveProfilerType::KINETO},
  };
  int number = 0;
  for (const auto& row : expected) {
    CHECK_EQ(static_cast<int>(row.state), number++);
    CHECK_EQ(std::string(profiler_state_name(row.state)), std::string(row.name));
    CHECK(active_profiler_type(row.state) == row.type);
    const ProfilerConfig config(row.state);
    CHECK_EQ(config.disabled(), number == 1);
    CHECK_EQ(config.times_device(), number == 3 || number == 6);
    CHECK_EQ(config.passes_on(), number == 4 || number == 5);
  }
  for (const int beyond : {11, 99})
    CHECK_EQ(std::string(profiler_state_name(static_cast<ProfilerState>(beyond))),
             std::string("unknown"));
  const ActiveProfilerType types[] = {ActiveProfilerType::NONE,   ActiveProfilerType::LEGACY,
                                      ActiveProfilerType::KINETO, ActiveProfilerType::NVTX,
                                      ActiveProfilerType::ITT,    ActiveProfilerType::PRIVATEUSE1};
  for (int type = 0; type < 6; ++type) CHECK_EQ(static_cast<int>(types[type]), type);
}

TEST(options_default_to_cpu_only_and_to_a_full_disable) {
  const ProfilerConfig config;
  CHECK(config.state == ProfilerState::CPU);
  CHECK(ProfilerConfig(ProfilerState::ITT).state == ProfilerState::ITT);
  CHECK(!config.report_input_shapes && !config.profile_memory && !config.with_stack &&
        !config.with_flops && !config.with_modules && config.trace_id.empty());
  CHECK(ProfilerDisableOptions().cleanup_tls_state && ProfilerDisableOptions().consolidate);
}

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

TEST(kinds_of_stubs_keep_their_numbers_and_names) {
  const DeviceStubsKind kinds[] = {DeviceStubsKind::CUDA, DeviceStubsKind::NVTX,
                                   DeviceStubsKind::ITT, DeviceStubsKind::PRIVATEUSE1};
  for (int kind = 0; kind < 4; ++kind) CHECK_EQ(static_cast<int>(kinds[kind]), kind);
  CHECK_EQ(std::string(device_stubs_kind_name(static_cast<DeviceStubsKind>(4))),
           std::string("unknown"));
}

TEST(a_record_starts_as_a_mark_without_anything) {
  const LegacyEvent event;
  CHECK(event.kind == LegacyEventKind::Mark && event.scope == RecordScope::FUNCTION);
  CHECK(!event.is_async && !event.is_remote && !event.has_device_event());
  CHECK_EQ(event.device_index, -1);
  CHECK_EQ(event.node_id, -1);
  CHECK_EQ(event.thread_id, 0u);
  CHECK_EQ(event.handle, 0u);
  CHECK_EQ(event.cpu_ns, 0);
  CHECK_EQ(event.device_us, -1);
  CHECK_EQ(event.cpu_memory_bytes, 0);
  CHECK_EQ(event.device_memory_bytes, 0);
  CHECK_EQ(event.sequence_nr, -1);
  CHECK_EQ(event.forward_thread_id, 0u);
  CHECK_EQ(event.flops, 0u);
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

TEST(cpu_time_between_records_is_in_microseconds) {
  const LegacyEvent begin = make_event(LegacyEventKind::Mark, "a", 0, 1500);
  const LegacyEvent end = make_event(LegacyEventKind::Mark, "b", 0, 4000);
  CHECK_EQ(begin.cpu_elapsed_us(end), 2.5);
  CHECK_EQ(end.cpu_elapsed_us(begin), -2.5);
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

TEST(device_times_of_records_without_a_local_device_event_are_the_stored_ones) {
  doubles::FakeDeviceStubs stubs(1);
  LegacyEvent whole;
  whole.record(&stubs);
  DeviceTimes times;
  CHECK_EQ(times.device_us(whole), 0);
  LegacyEvent remote = whole;
  remote.is_remote = true;
  remote.device_us = 55;
  CHECK_EQ(times.device_us(remote), 55);
  LegacyEvent without_stubs = whole;
  without_stubs.stubs = nullptr;
  without_stubs.device_us = 56;
  CHECK_EQ(times.device_us(without_stubs), 56);
  LegacyEvent without_event = whole;
  without_event.device_event = nullptr;
  without_event.device_us = 57;
  CHECK_EQ(times.device_us(without_event), 57);
}

TEST(device_times_are_whole_microseconds_from_0) {
  class FASTPROF_HIDDEN Given : public doubles::FakeDeviceStubs {
   public:
    double elapsed_us(const DeviceEvent&, const DeviceEvent&) const override { return given; }
    double given = 0;
  } stubs;
  LegacyEvent event;
  event.record(&stubs);
  DeviceTimes times;
  const double given_us[] = {-3, 0, 0.9, 1, 1.9, 2};
  const int64_t expected_us[] = {0, 0, 0, 1, 1, 2};
  for (size_t i = 0; i < 6; ++i) {
    stubs.given = given_us[i];
    CHECK_EQ(times.device_us(event), expected_us[i]);
  }
}

TEST(an_event_list_is_empty_after_consolidation) {
  RangeEventList list;
  list.record(make_event(LegacyEventKind::Mark, "a", 0, 1));
  list.record(make_event(LegacyEventKind::Mark, "b", 0, 2));
  CHECK_EQ(list.size(), 2u);
  const LegacyEventList events = list.consolidate();
  CHECK_EQ(events.size(), 2u);
  CHECK_EQ(events[1].name, std::string("b"));
  CHECK_EQ(list.size(), 0u);
  CHECK_EQ(list.consolidate().size(), 0u);
}

TEST(a_long_event_list_keeps_its_order) {
  for (const int64_t count : {1023, 1024, 1025, 2048, 3000}) {
    RangeEventList list;
    for (int64_t i = 0; i < count; ++i)
      list.record(make_event(LegacyEventKind::Mark, "m", 0, i + 1));
    CHECK_EQ(list.size(), count);
    const LegacyEventList events = list.consolidate();
    CHECK_EQ(events.size(), count);
    for (size_t i = 0; i < events.size(); ++i)
      CHECK_EQ(events[i].cpu_ns, static_cast<int64_t>(i) + 1);
  }
}
