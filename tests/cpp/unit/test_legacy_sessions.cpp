// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler beside the rest of the process: sessions, the range macros, fork.
#include <unistd.h>

#include <set>
#include <thread>

#include "../legacy_checks.hpp"
#include "fastprof/legacy.hpp"
#include "recorder_checks.hpp"

using namespace fastprof;
using recorder_checks::Running;

namespace {

std::multiset<std::string> names(const LegacyEventLists& lists) {
  std::multiset<std::string> found;
  for (const LegacyEventList& list : lists)
    for (const LegacyEvent& event : list)
      if (event.kind == LegacyEventKind::PushRange) found.insert(event.name);
  return found;
}

std::multiset<std::string> names(const Capture& capture) {
  std::multiset<std::string> found;
  for (size_t i = 0; i < capture.size(); ++i)
    if (capture.kind[i] == EventKind::range) found.insert(capture.sites[capture.site[i]].name);
  return found;
}

void work() {
  FASTPROF_RANGE("macro");
  RecordFunction function;
  function.before("function");
}

}  // namespace

TEST(a_session_and_the_profiler_both_see_every_range) {
  Running session;
  work();
  enable_profiler(ProfilerConfig());
  work();
  const LegacyEventLists lists = disable_profiler();
  work();
  const Capture& capture = session.stop();
  CHECK((names(lists) == std::multiset<std::string>{"macro", "function"}));
  CHECK_EQ(names(capture).count("macro"), 3u);
  CHECK_EQ(names(capture).count("function"), 3u);
}

TEST(a_profiler_on_one_thread_does_not_keep_a_session_from_starting_on_another) {
  enable_profiler(ProfilerConfig());
  std::thread([] {
    Running session;
    work();
    CHECK_EQ(names(session.stop()).size(), 2u);
  }).join();
  CHECK_EQ(names(disable_profiler()).size(), 0u);
}

TEST(memory_goes_to_the_session_and_to_the_profiler) {
  ProfilerConfig config;
  config.profile_memory = true;
  Running session;
  enable_profiler(config);
  report_memory_usage(&config, 32, 32, 64, {DeviceType::CPU, -1});
  const LegacyEventLists lists = disable_profiler();
  const Capture& capture = session.stop();
  CHECK_EQ(lists.at(0).size(), 3u);
  size_t reports = 0;
  for (const EventKind kind : capture.kind) reports += kind == EventKind::memory;
  CHECK_EQ(reports, 1u);
}

TEST(a_forked_child_is_not_profiled_and_may_profile_itself) {
  ProfilerConfig config;
  config.profile_memory = true;
  enable_profiler(config);
  work();
  const int status = recorder_checks::in_child([]() -> int {
    const int before = check::failures();
    CHECK(!profiler_enabled());
    CHECK(profiler_type() == ActiveProfilerType::NONE);
    CHECK(!has_thread_local_callbacks());
    CHECK(memory_profiler() == nullptr);
    CHECK_MESSAGE(StateError, "Profiler must be enabled.", add_remote_events(LegacyEventList()));
    work();
    mark("nobody listens");
    enable_profiler(ProfilerConfig());
    work();
    CHECK_EQ(names(disable_profiler()).size(), 2u);
    CHECK_EQ(text_checks::stderr_of([] { CHECK(disable_profiler().empty()); }), std::string());
    CHECK(ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE) == nullptr);
    // Not exit(): what the parent has made is no leak of the child.
    ::_exit(check::failures() == before ? 0 : 1);
  });
  CHECK_EQ(status, 0);
  work();
  CHECK_EQ(names(disable_profiler()).size(), 4u);
}
