// SPDX-License-Identifier: Apache-2.0
// TLSLegacyProfilerGuard and RecordProfile: profiles of a scope whose destructors never throw.
#include <sstream>
#include <stdexcept>

#include "../legacy_checks.hpp"
#include "fastprof/legacy/record_profile.hpp"
#include "fastprof/legacy/tls_profiler_guard.hpp"
#include "temporary_folder.hpp"

using namespace fastprof;
using namespace text_checks;

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

TEST(a_guard_raises_in_its_constructor_only) {
  enable_profiler(ProfilerConfig());
  CHECK_MESSAGE(StateError, "Profiler is already enabled on this thread",
                TLSLegacyProfilerGuard{ProfilerConfig()});
  CHECK(profiler_enabled());
  disable_profiler();
  size_t calls = 0;
  const std::string told = stderr_of([&] {
    const TLSLegacyProfilerGuard guard(ProfilerConfig(), [&](const LegacyEventLists&) { ++calls; });
    disable_profiler();
  });
  CHECK_EQ(calls, 0u);
  CHECK(told.find("Can't disable profiler when it's not running") != std::string::npos);
}

TEST(what_the_callback_throws_is_told_and_goes_no_further) {
  const std::string told = stderr_of([] {
    TLSLegacyProfilerGuard(ProfilerConfig(),
                           [](const LegacyEventLists&) { throw std::runtime_error("no room"); });
    TLSLegacyProfilerGuard(ProfilerConfig(), [](const LegacyEventLists&) { throw 3; });
  });
  CHECK_EQ(told, std::string("fastprof: Got error processing profiler events: no room\n"
                             "fastprof: Got error processing profiler events\n"));
  CHECK(!profiler_enabled());
}

TEST(a_profile_of_a_scope_is_written_to_a_file) {
  const fastprof_test::TemporaryFolder folder;
  const std::string path = folder.path + "/trace.json";
  {
    const RecordProfile profile(path);
    range("in the file");
  }
  CHECK(has(contents(path), "\"in the file\""));
}

TEST(a_file_that_cannot_be_opened_is_told_at_the_end) {
  const std::string told = stderr_of([] {
    const RecordProfile profile(std::string("/nonexistent-directory/trace.json"));
    range("lost");
  });
  CHECK(told.find("fastprof: RecordProfile: Could not open file") == 0);
  CHECK(!profiler_enabled());
}

TEST(what_a_stream_throws_is_told_and_goes_no_further) {
  struct Failing : std::streambuf {
    explicit Failing(int kind) : kind_(kind) {}
    std::streamsize xsputn(const char*, std::streamsize) override { return fail(), 0; }
    int overflow(int) override { return fail(), 0; }
    void fail() const {
      if (kind_ == 0) throw std::runtime_error("the disk is gone");
      throw kind_;
    }
    int kind_;
  };
  const std::string told = stderr_of([] {
    for (int kind = 0; kind < 2; ++kind) {
      Failing buffer(kind);
      std::ostream out(&buffer);
      out.exceptions(std::ios::badbit);
      const RecordProfile profile(out);
    }
  });
  CHECK_EQ(told, std::string("fastprof: RecordProfile: the disk is gone\n"
                             "fastprof: RecordProfile: the events could not be written\n"));
  CHECK(!profiler_enabled());
}

TEST(a_profile_that_somebody_else_ended_is_told) {
  std::ostringstream out;
  const std::string told = stderr_of([&] {
    const RecordProfile profile(out);
    disable_profiler();
  });
  CHECK(has(told, "RecordProfile: Can't disable profiler when it's not running"));
}
