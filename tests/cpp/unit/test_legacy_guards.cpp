// SPDX-License-Identifier: Apache-2.0
// TLSLegacyProfilerGuard and RecordProfile: profiles of a scope whose destructors never throw.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "../legacy_checks.hpp"
#include "fastprof/legacy/record_profile.hpp"
#include "fastprof/legacy/tls_profiler_guard.hpp"

using namespace fastprof;

namespace {

void range(const std::string& name) {
  RecordFunction function;
  function.before(name);
}

}  // namespace

TEST(a_guard_hands_over_the_events_of_its_scope) {
  LegacyEventLists events;
  {
    const TLSLegacyProfilerGuard guard(ProfilerConfig(),
                                       [&](const LegacyEventLists& lists) { events = lists; });
    CHECK(profiler_enabled());
    range("a");
  }
  CHECK(!profiler_enabled() && !has_thread_local_callbacks());
  CHECK_EQ(events.at(0).size(), 4u);
  CHECK_EQ(events.at(0)[1].name, std::string("a"));
}

TEST(a_guard_without_a_callback_only_disables) {
  const CapturedStderr captured;
  { const TLSLegacyProfilerGuard guard{ProfilerConfig()}; }
  CHECK(!profiler_enabled());
  CHECK_EQ(captured.text(), std::string());
}

TEST(a_guard_passes_its_options_on) {
  size_t calls = 0, lists_seen = 99;
  const auto count = [&](const LegacyEventLists& lists) {
    ++calls;
    lists_seen = lists.size();
  };
  {
    const TLSLegacyProfilerGuard guard(ProfilerConfig(), count, {true, false});
    range("a");
  }
  CHECK_EQ(calls, 1u);
  CHECK_EQ(lists_seen, 0u);
  {
    const TLSLegacyProfilerGuard guard(ProfilerConfig(), count, {false, true});
    range("a");
  }
  CHECK_EQ(lists_seen, 1u);
  CHECK(profiler_enabled());
  disable_profiler();
}

TEST(a_guard_below_newer_debug_info_tells_and_leaves_the_profiler) {
  class FASTPROF_HIDDEN Other : public DebugInfoBase {};
  size_t calls = 0;
  auto guard = std::make_unique<TLSLegacyProfilerGuard>(ProfilerConfig(),
                                                        [&](const LegacyEventLists&) { ++calls; });
  {
    const DebugInfoGuard newer(DebugInfoKind::TEST_INFO, std::make_shared<Other>());
    const CapturedStderr captured;
    guard.reset();
    CHECK(captured.text().find("TLSLegacyProfilerGuard: Can't disable profiler when it's not "
                               "running, or not the newest debug info") != std::string::npos);
  }
  CHECK_EQ(calls, 0u);
  CHECK(profiler_enabled());
  disable_profiler();
}

TEST(a_guard_raises_in_its_constructor_only) {
  enable_profiler(ProfilerConfig());
  CHECK_MESSAGE(StateError, "Profiler is already enabled on this thread",
                TLSLegacyProfilerGuard{ProfilerConfig()});
  CHECK(profiler_enabled());
  disable_profiler();
  std::string told;
  {
    const CapturedStderr captured;
    size_t calls = 0;
    {
      const TLSLegacyProfilerGuard guard(ProfilerConfig(),
                                         [&](const LegacyEventLists&) { ++calls; });
      disable_profiler();
    }
    told = captured.text();
    CHECK_EQ(calls, 0u);
  }
  CHECK(told.find("Can't disable profiler when it's not running") != std::string::npos);
}

#if FASTPROF_EXCEPTIONS
TEST(what_the_callback_throws_is_told_and_goes_no_further) {
  std::string told;
  {
    const CapturedStderr captured;
    {
      const TLSLegacyProfilerGuard guard(
          ProfilerConfig(), [](const LegacyEventLists&) { throw std::runtime_error("no room"); });
    }
    {
      const TLSLegacyProfilerGuard guard(ProfilerConfig(),
                                         [](const LegacyEventLists&) { throw 3; });
    }
    told = captured.text();
  }
  CHECK_EQ(told, std::string("fastprof: Got error processing profiler events: no room\n"
                             "fastprof: Got error processing profiler events\n"));
  CHECK(!profiler_enabled());
}
#endif

#if FASTPROF_EXCEPTIONS
TEST(what_a_profiler_throws_when_it_is_disabled_is_told) {
  // A profiler of another library.
  class FASTPROF_HIDDEN Failing : public ProfilerStateBase {
   public:
    const ProfilerConfig& config() const noexcept override { return config_; }
    bool inherited() const noexcept override { return false; }
    void push_range(const RecordFunction&) override {}
    void pop_range(const RecordFunction&) override {}
    void mark(const char*, bool) override {
      if (with_text) throw std::runtime_error("mark lost");
      throw 3;
    }
    void add_remote_events(LegacyEventLists) override {}
    LegacyEventLists consolidate() override { return {}; }
    void set_callback_handle(CallbackHandle) noexcept override {}
    CallbackHandle callback_handle() const noexcept override { return kInvalidCallbackHandle; }
    void report_memory_usage(void*, int64_t, uint64_t, uint64_t, Device) noexcept override {}
    bool memory_profiling_enabled() const noexcept override { return false; }
    bool with_text = true;

   private:
    ProfilerConfig config_;
  };
  for (const bool with_text : {true, false}) {
    const auto failing = std::make_shared<Failing>();
    failing->with_text = with_text;
    ThreadLocalDebugInfo::push(DebugInfoKind::PROFILER_STATE, failing);
    const CapturedStderr captured;
    LegacyEventLists lists;
    CHECK(!legacy_detail::disable_quietly({}, &lists, "a guard"));
    CHECK_EQ(captured.text(),
             std::string(with_text ? "fastprof: a guard: mark lost\n"
                                   : "fastprof: a guard: the profiler could not be disabled\n"));
    CHECK(ThreadLocalDebugInfo::current().empty());
  }
}
#endif

TEST(a_profile_of_a_scope_is_written_to_a_stream) {
  std::ostringstream out;
  {
    const RecordProfile profile(out);
    CHECK(profiler_config().state == ProfilerState::CPU);
    range("first \"quoted\"");
    range("second");
  }
  CHECK(!profiler_enabled());
  const std::string text = out.str();
  CHECK(text.find("[\n{\"name\": \"first \\\"quoted\\\"\", \"ph\": \"X\", \"ts\": ") == 0);
  CHECK(text.find("{\"name\": \"second\"") != std::string::npos);
  CHECK(text.find("__start_profile") == std::string::npos);
  CHECK(text.size() > 3 && text.substr(text.size() - 3) == "\n]\n");
}

TEST(a_profile_of_a_scope_is_written_to_a_file) {
  char path[] = "/tmp/fastprof_record_profile_XXXXXX";
  const int file = ::mkstemp(path);
  CHECK(file >= 0);
  ::close(file);
  {
    const RecordProfile profile{std::string(path)};
    range("in the file");
  }
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  CHECK(text.str().find("\"in the file\"") != std::string::npos);
  std::remove(path);
}

TEST(a_file_that_cannot_be_opened_is_told_at_the_end) {
  std::string told;
  {
    const CapturedStderr captured;
    {
      const RecordProfile profile(std::string("/nonexistent-directory/trace.json"));
      range("lost");
    }
    told = captured.text();
  }
  CHECK(told.find("fastprof: RecordProfile: Could not open file") == 0);
  CHECK(!profiler_enabled());
}

TEST(a_profile_whose_events_do_not_pair_is_told_and_nothing_is_written) {
  std::ostringstream out;
  std::string told;
  {
    const CapturedStderr captured;
    {
      const RecordProfile profile(out);
      disable_profiler({false, true});  // removes the start mark
    }
    told = captured.text();
  }
  CHECK(told.find("Could not find the __start_profile mark") != std::string::npos);
  CHECK_EQ(out.str(), std::string());
}

TEST(a_profile_that_somebody_else_ended_is_told) {
  std::ostringstream out;
  const CapturedStderr captured;
  {
    const RecordProfile profile(out);
    disable_profiler();
  }
  CHECK(captured.text().find("RecordProfile: Can't disable profiler when it's not running") !=
        std::string::npos);
}
