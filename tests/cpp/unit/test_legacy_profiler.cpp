// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler on one thread: states, what each record holds, and every error.
#include "../../doubles/fake_device_stubs.hpp"
#include "../legacy_checks.hpp"
#include "fastprof/legacy/legacy_profiler.hpp"

using namespace fastprof;

namespace {

Value tensor(const std::vector<int64_t>& shape) {
  TensorDescription description;
  description.shape = shape;
  return Value(description);
}

// Records a range with this name and these inputs.
void range(const char* name, const std::vector<Value>& inputs = {}, int64_t sequence_number = -1,
           RecordScope scope = RecordScope::FUNCTION) {
  RecordFunction function(scope);
  function.before(name, inputs, sequence_number);
}

LegacyEventList only_list(const LegacyEventLists& lists) {
  CHECK_EQ(lists.size(), 1u);
  return lists.empty() ? LegacyEventList() : lists[0];
}

std::string kinds(const LegacyEventList& list) {
  std::string text;
  for (const LegacyEvent& event : list) {
    if (!text.empty()) text += " ";
    text += legacy_event_kind_name(event.kind);
    if (!event.name.empty()) text += ":" + event.name;
  }
  return text;
}

void fake_stack(std::vector<std::string>* frames) {
  *frames = {"inner.py(1): f", "outer.py(2): g"};
}

}  // namespace

TEST(a_run_is_framed_by_marks_and_has_a_push_and_a_pop_per_range) {
  enable_profiler(ProfilerConfig());
  CHECK(profiler_enabled());
  CHECK(has_thread_local_callbacks());
  {
    RecordFunction outer;
    outer.before("outer");
    range("inner", {}, 5, RecordScope::USER_SCOPE);
    mark("here");
  }
  const LegacyEventList list = only_list(disable_profiler());
  CHECK(!profiler_enabled());
  CHECK(!has_thread_local_callbacks());
  CHECK_EQ(kinds(list), std::string("mark:__start_profile push:outer push:inner pop mark:here pop "
                                    "mark:__stop_profile"));
  if (list.size() != 7) return;
  for (size_t i = 0; i < list.size(); ++i) {
    CHECK(list[i].cpu_ns > 0);
    CHECK(i == 0 || list[i - 1].cpu_ns <= list[i].cpu_ns);
    CHECK_EQ(list[i].thread_id, current_thread_id());
  }
  CHECK(list[1].handle != 0 && list[2].handle != 0 && list[1].handle != list[2].handle);
  CHECK_EQ(list[3].handle, list[2].handle);
  CHECK_EQ(list[5].handle, list[1].handle);
  CHECK_EQ(list[2].sequence_nr, 5);
  CHECK_EQ(list[1].sequence_nr, -1);
  CHECK(list[2].scope == RecordScope::USER_SCOPE && list[1].scope == RecordScope::FUNCTION);
}

TEST(states_that_cannot_run_are_refused_and_leave_nothing_behind) {
  for ([[maybe_unused]] const ProfilerState state :
       {ProfilerState::KINETO, ProfilerState::KINETO_GPU_FALLBACK, ProfilerState::KINETO_ONDEMAND})
    CHECK_MESSAGE(ValueError, "the exclusive profiler does not run state KINETO",
                  enable_profiler(ProfilerConfig(state)));
  CHECK(!profiler_enabled());
  CHECK(!has_thread_local_callbacks());
}

TEST(queries_answer_for_the_calling_thread) {
  CHECK(profiler_type() == ActiveProfilerType::NONE);
  CHECK_MESSAGE(StateError, "Profiler must be enabled.", profiler_config());
  doubles::FakeDeviceStubs stubs;
  const doubles::RegisteredStubs nvtx(DeviceStubsKind::NVTX, &stubs);
  const doubles::RegisteredStubs itt(DeviceStubsKind::ITT, &stubs);
  const doubles::RegisteredStubs cuda(DeviceStubsKind::CUDA, &stubs);
  const doubles::RegisteredStubs own(DeviceStubsKind::PRIVATEUSE1, &stubs);
  const struct {
    ProfilerState state;
    ActiveProfilerType type;
  } rows[] = {{ProfilerState::CPU, ActiveProfilerType::LEGACY},
              {ProfilerState::CUDA, ActiveProfilerType::LEGACY},
              {ProfilerState::NVTX, ActiveProfilerType::NVTX},
              {ProfilerState::ITT, ActiveProfilerType::ITT},
              {ProfilerState::PRIVATEUSE1, ActiveProfilerType::PRIVATEUSE1},
              {ProfilerState::Disabled, ActiveProfilerType::NONE}};
  for (const auto& row : rows) {
    ProfilerConfig config(row.state);
    config.trace_id = "id";
    enable_profiler(config);
    CHECK(profiler_type() == row.type);
    CHECK_EQ(profiler_enabled(), row.state != ProfilerState::Disabled);
    CHECK(profiler_config().state == row.state);
    CHECK_EQ(profiler_config().trace_id, std::string("id"));
    disable_profiler();
  }
}

TEST(shapes_are_recorded_when_asked_for) {
  ProfilerConfig config;
  config.report_input_shapes = true;
  enable_profiler(config);
  range("op", {tensor({2, 3}), Value(1), tensor({4})});
  const LegacyEventList list = only_list(disable_profiler());
  const std::vector<std::vector<int64_t>> expected = {{2, 3}, {}, {4}};
  CHECK(list.size() == 4 && list[1].shapes == expected && list[2].shapes.empty());
}

TEST(flops_are_recorded_when_asked_for_with_or_without_shapes) {
  for (const bool shapes : {false, true}) {
    ProfilerConfig config;
    config.with_flops = true;
    config.report_input_shapes = shapes;
    enable_profiler(config);
    range("aten::mm", {tensor({2, 3}), tensor({3, 4})});
    const LegacyEventList list = only_list(disable_profiler());
    CHECK_EQ(list.at(1).flops, 48u);
    CHECK_EQ(list.at(1).shapes.size(), shapes ? 2u : 0u);
  }
}

TEST(stacks_are_recorded_when_asked_for_but_not_of_backward_functions) {
  CHECK(set_stack_provider(&fake_stack) == nullptr);
  for (const bool with_stack : {false, true}) {
    ProfilerConfig config;
    config.with_stack = with_stack;
    enable_profiler(config);
    range("forward");
    range("backward", {}, 3, RecordScope::BACKWARD_FUNCTION);
    const LegacyEventList list = only_list(disable_profiler());
    const std::vector<std::string> frames = {"inner.py(1): f", "outer.py(2): g"};
    CHECK(list.at(1).stack == (with_stack ? frames : std::vector<std::string>()));
    CHECK(list.at(2).stack.empty() && list.at(3).stack.empty());
  }
  CHECK(set_stack_provider(nullptr) == &fake_stack);
}

TEST(backward_functions_carry_their_forward_thread) {
  enable_profiler(ProfilerConfig());
  {
    RecordFunction function(RecordScope::BACKWARD_FUNCTION);
    function.set_forward_thread_id(42);
    function.before("MulBackward0", 17);
  }
  const LegacyEventList list = only_list(disable_profiler());
  CHECK_EQ(list.at(1).forward_thread_id, 42u);
  CHECK_EQ(list.at(1).sequence_nr, 17);
  CHECK(list.at(1).scope == RecordScope::BACKWARD_FUNCTION);
}

TEST(records_carry_the_node_id) {
  set_default_node_id(7);
  enable_profiler(ProfilerConfig());
  range("a");
  const LegacyEventList list = only_list(disable_profiler());
  store_relaxed(&state()->node_id, int64_t{-1});  // as before the first set
  for (const LegacyEvent& event : list) CHECK_EQ(event.node_id, 7);
  CHECK_EQ(list.size(), 4u);
}

TEST(remote_events_come_after_the_local_ones_each_call_a_list) {
  CHECK_MESSAGE(StateError, "Profiler must be enabled.", add_remote_events(LegacyEventList()));
  CHECK_MESSAGE(StateError, "Profiler must be enabled.", add_remote_events("bytes"));
  enable_profiler(ProfilerConfig());
  LegacyEvent event = make_event(LegacyEventKind::PushRange, "remote", 3, 5);
  event.node_id = 2;
  add_remote_events(LegacyEventList{event});
  const std::string bytes = encode_event_lists({{event, event}, {event}});
  add_remote_events(bytes);
  CHECK_MESSAGE(FormatError, "remote events: at byte 0: the magic is missing",
                add_remote_events("bytes"));
  range("local");
  const LegacyEventLists lists = disable_profiler();
  CHECK_EQ(lists.size(), 4u);
  if (lists.size() != 4) return;
  CHECK_EQ(kinds(lists[0]), std::string("mark:__start_profile push:local pop mark:__stop_profile"));
  CHECK_EQ(lists[1].size(), 1u);
  CHECK_EQ(lists[2].size(), 2u);
  CHECK_EQ(lists[3].size(), 1u);
  for (size_t i = 1; i < 4; ++i)
    for (const LegacyEvent& remote : lists[i]) CHECK(remote.is_remote && remote.node_id == 2);
}

TEST(memory_is_recorded_when_asked_for) {
  for (const bool profile_memory : {false, true}) {
    ProfilerConfig config;
    config.profile_memory = profile_memory;
    enable_profiler(config);
    CHECK_EQ(memory_profiler() != nullptr, profile_memory);
    report_memory_usage(nullptr, 64, 0, 0, {DeviceType::CPU, -1});
    report_memory_usage(nullptr, -32, 0, 0, {DeviceType::MKLDNN, -1});
    report_memory_usage(nullptr, 8, 0, 0, {DeviceType::IDEEP, -1});
    report_memory_usage(nullptr, 1024, 0, 0, {DeviceType::CUDA, 1});
    report_memory_usage(nullptr, -512, 0, 0, {DeviceType::HIP, 0});
    report_out_of_memory(1 << 20, 0, 0, {DeviceType::CUDA, 0});
    report_out_of_memory(77, 0, 0, {DeviceType::XPU, 0});
    const LegacyEventList list = only_list(disable_profiler());
    if (!profile_memory) {
      CHECK_EQ(list.size(), 2u);
      continue;
    }
    CHECK_EQ(kinds(list),
             std::string("mark:__start_profile memory_alloc memory_alloc memory_alloc memory_alloc "
                         "memory_alloc out_of_memory:[OutOfMemory] out_of_memory:[OutOfMemory] "
                         "mark:__stop_profile"));
    const int64_t cpu_bytes[] = {64, -32, 8, 0, 0, 0, 0};
    const int64_t device_bytes[] = {0, 0, 0, 1024, -512, 1 << 20, 77};
    for (size_t i = 0; i < 7 && i + 1 < list.size(); ++i) {
      CHECK_EQ(list[i + 1].cpu_memory_bytes, cpu_bytes[i]);
      CHECK_EQ(list[i + 1].device_memory_bytes, device_bytes[i]);
      CHECK(!list[i + 1].has_device_event());
      CHECK_EQ(list[i + 1].thread_id, current_thread_id());
    }
  }
  report_memory_usage(nullptr, 64, 0, 0, {DeviceType::CPU, -1});  // no profiler is active
}

TEST(memory_of_other_devices_is_told_once) {
  ProfilerConfig config;
  config.profile_memory = true;
  enable_profiler(config);
  const std::string told = text_checks::stderr_of([] {
    report_memory_usage(nullptr, 64, 0, 0, {DeviceType::XPU, 0});
    report_memory_usage(nullptr, 64, 0, 0, {DeviceType::MPS, 0});
  });
  CHECK(told.find("memory of device type xpu is not counted") != std::string::npos);
  CHECK(told.find("mps") == std::string::npos);
  CHECK_EQ(only_list(disable_profiler()).size(), 2u);
}

TEST(device_states_stamp_ranges_and_marks_with_device_events) {
  for (const ProfilerState state : {ProfilerState::CUDA, ProfilerState::PRIVATEUSE1}) {
    doubles::FakeDeviceStubs stubs(2);
    const doubles::RegisteredStubs registered(
        state == ProfilerState::CUDA ? DeviceStubsKind::CUDA : DeviceStubsKind::PRIVATEUSE1,
        &stubs);
    enable_profiler(ProfilerConfig(state));
    stubs.set_current(1);
    range("kernel");
    range("aten::view");
    mark("with");
    mark("without", false);
    stubs.set_current(0);
    const LegacyEventList list = only_list(disable_profiler());
    std::string expected;
    for (int i = 0; i < 10; ++i) expected += "mark:__cuda_startup ";
    expected +=
        "mark:__cuda_start_event mark:__cuda_start_event mark:__start_profile push:kernel pop "
        "push:aten::view pop mark:with mark:without mark:__stop_profile";
    CHECK_EQ(kinds(list), expected);
    if (list.size() != 20) continue;
    for (size_t i = 0; i < 12; ++i) {
      CHECK(list[i].has_device_event());
      CHECK_EQ(list[i].device_index, static_cast<int32_t>(i % 2));
    }
    const bool device[] = {false, true, true, false, false, true, false, false};
    for (size_t i = 0; i < 8; ++i) {
      CHECK_EQ(list[12 + i].has_device_event(), device[i]);
      CHECK_EQ(list[12 + i].device_index, device[i] ? 1 : -1);
      CHECK(list[12 + i].cpu_ns > 0);
    }
    CHECK_EQ(list[13].device_elapsed_us(list[14]), 10.0);
    CHECK_EQ(list[11].device_elapsed_us(list[13]), 10.0);
    CHECK_EQ(list[11].device_elapsed_us(list[17]), 30.0);
    size_t waits = 0;
    for (const std::string& call : stubs.take_calls()) waits += call.find("synchronize") == 0;
    CHECK_EQ(waits, 10u);
  }
}

TEST(nvtx_gets_ranges_and_marks_and_nothing_is_recorded) {
  doubles::FakeDeviceStubs stubs;
  const doubles::RegisteredStubs registered(DeviceStubsKind::NVTX, &stubs);
  ProfilerConfig config(ProfilerState::NVTX);
  config.profile_memory = true;
  enable_profiler(config);
  uint64_t handle = 0;
  {
    RecordFunction function;
    function.before("op", 12);
    handle = function.handle();
    mark("instant");
    report_memory_usage(nullptr, 64, 0, 0, {DeviceType::CPU, -1});
  }
  add_remote_events(LegacyEventList{make_event(LegacyEventKind::Mark, "remote", 0, 1)});
  CHECK(disable_profiler().empty());
  const std::vector<std::string> expected = {"mark __start_profile",
                                             "push op, seq = 12, op_id = " + std::to_string(handle),
                                             "mark instant", "pop"};
  CHECK(stubs.take_calls() == expected);
}

TEST(nvtx_text_links_inputs_to_the_ranges_that_produced_them) {
  doubles::FakeDeviceStubs stubs;
  const doubles::RegisteredStubs registered(DeviceStubsKind::NVTX, &stubs);
  ProfilerConfig config(ProfilerState::NVTX);
  config.report_input_shapes = true;
  config.profile_memory = true;
  enable_profiler(config);
  int storage = 0;
  TensorDescription description;
  const std::vector<int64_t> shape = {2, 3};
  description.shape = shape;
  description.pointer = &storage;
  const Value made(description);
  uint64_t producer = 0, consumer = 0, later = 0;
  {
    RecordFunction function;
    function.before("make");
    producer = function.handle();
    function.set_outputs({Value(1), made});
  }
  report_memory_usage(&storage, 0, 0, 0, {DeviceType::CPU, -1});  // frees nothing
  const std::vector<Value> inputs = {made, Value(2.0), Value::list({made, made})};
  {
    RecordFunction function;
    function.before("use", inputs);
    consumer = function.handle();
  }
  report_memory_usage(&storage, -24, 0, 0, {DeviceType::CPU, -1});
  {
    RecordFunction function;
    function.before("after the free", Span<const Value>(&made, 1));
    later = function.handle();
  }
  disable_profiler();
  const std::string made_by = "(" + std::to_string(producer) + ",1)";
  const std::vector<std::string> expected = {
      "mark __start_profile",
      "push make, op_id = " + std::to_string(producer),
      "pop",
      "push use, op_id = " + std::to_string(consumer) +
          ", sizes = [[2, 3], [], [2, 3], [2, 3]], input_op_ids = [" + made_by + ", (0,-1), " +
          made_by + ", " + made_by + "]",
      "pop",
      "push after the free, op_id = " + std::to_string(later) +
          ", sizes = [[2, 3]], input_op_ids = [(0,-1)]",
      "pop"};
  CHECK(stubs.take_calls() == expected);
}

TEST(itt_gets_the_bare_names) {
  doubles::FakeDeviceStubs stubs;
  const doubles::RegisteredStubs registered(DeviceStubsKind::ITT, &stubs);
  ProfilerConfig config(ProfilerState::ITT);
  config.report_input_shapes = true;
  enable_profiler(config);
  range("op", {tensor({2})}, 4);
  CHECK(disable_profiler().empty());
  const std::vector<std::string> expected = {"mark __start_profile", "push op", "pop"};
  CHECK(stubs.take_calls() == expected);
}

TEST(a_device_that_fails_at_the_start_leaves_no_profiler_behind) {
  class FASTPROF_HIDDEN Broken : public doubles::FakeDeviceStubs {
   public:
    void record(int32_t*, DeviceEvent*, int64_t*) const override {
      throw std::runtime_error("device lost");
    }
  } stubs;
  class FASTPROF_HIDDEN BrokenMark : public doubles::FakeDeviceStubs {
   public:
    void mark(const char*) const override { throw std::runtime_error("tool lost"); }
  } nvtx_stubs;
  const doubles::RegisteredStubs cuda(DeviceStubsKind::CUDA, &stubs);
  const doubles::RegisteredStubs nvtx(DeviceStubsKind::NVTX, &nvtx_stubs);
  for (const ProfilerState state : {ProfilerState::CUDA, ProfilerState::NVTX}) {
    CHECK_MESSAGE(std::runtime_error, state == ProfilerState::CUDA ? "device lost" : "tool lost",
                  enable_profiler(ProfilerConfig(state)));
    CHECK(!profiler_enabled());
    CHECK(!has_thread_local_callbacks());
  }
}
