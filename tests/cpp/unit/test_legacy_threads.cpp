// SPDX-License-Identifier: Apache-2.0
// The exclusive profiler across threads: propagation, async ends, remote events from everywhere,
// nested profilers.
#include <set>
#include <thread>

#include "../legacy_checks.hpp"
#include "fastprof/legacy/legacy_profiler.hpp"
#include "fastprof/legacy/write_events.hpp"
#include "fastprof/primitives/propagate.hpp"
#include "fastprof/primitives/thread_local_state.hpp"

using namespace fastprof;

namespace {

void range(const char* name) {
  RecordFunction function;
  function.before(name);
}

template <class F>
void on_thread(F work) {
  std::thread thread(std::move(work));
  thread.join();
}

const LegacyEvent* find(const LegacyEventList& list, LegacyEventKind kind, uint64_t handle) {
  for (const LegacyEvent& event : list)
    if (event.kind == kind && event.handle == handle) return &event;
  return nullptr;
}

}  // namespace

TEST(only_threads_it_was_propagated_to_are_profiled) {
  enable_profiler(ProfilerConfig());
  uint64_t other_thread = 0;
  on_thread([] {
    CHECK(!profiler_enabled());
    range("not seen");
    mark("not seen");
  });
  on_thread(propagate([&] {
    CHECK(profiler_enabled());
    other_thread = current_thread_id();
    range("seen");
  }));
  const LegacyEventLists lists = disable_profiler();
  CHECK_EQ(lists.size(), 2u);
  if (lists.size() != 2) return;
  CHECK_EQ(lists[0].size(), 2u);
  CHECK_EQ(lists[1].size(), 2u);
  CHECK_EQ(lists[1][0].name, std::string("seen"));
  CHECK_EQ(lists[1][0].thread_id, other_thread);
  CHECK(lists[0][0].thread_id < other_thread);
}

TEST(a_range_ended_on_another_thread_stays_with_the_thread_that_began_it) {
  enable_profiler(ProfilerConfig());
  const uint64_t here = current_thread_id();
  uint64_t there = 0, handle = 0;
  {
    RecordFunction function;
    function.set_async();
    function.before("async");
    handle = function.handle();
    on_thread(propagate([&] {
      there = current_thread_id();
      function.end();
    }));
  }
  const LegacyEventLists lists = disable_profiler();
  CHECK_EQ(lists.size(), 1u);
  const LegacyEvent* push = find(lists.at(0), LegacyEventKind::PushRange, handle);
  const LegacyEvent* pop = find(lists.at(0), LegacyEventKind::PopRange, handle);
  CHECK(push != nullptr && pop != nullptr);
  if (push == nullptr || pop == nullptr) return;
  CHECK(push->is_async);
  CHECK_EQ(push->thread_id, here);
  CHECK_EQ(pop->thread_id, there);
  CHECK(here != there);
  std::ostringstream out;
  write_events(out, lists);
  CHECK(out.str().find("\"tid\": " + std::to_string(here)) != std::string::npos);
}

TEST(an_end_where_the_profiler_is_unknown_is_not_recorded) {
  enable_profiler(ProfilerConfig());
  {
    RecordFunction function;
    function.before("async");
    on_thread([&] { function.end(); });
  }
  const LegacyEventLists lists = disable_profiler();
  CHECK_EQ(lists.at(0).size(), 3u);
  std::ostringstream out;
  write_events(out, lists);
  CHECK_EQ(out.str(), std::string("[\n]\n"));
}

TEST(the_innermost_of_nested_profilers_gets_the_event) {
  enable_profiler(ProfilerConfig());
  const ThreadLocalState outer_state;
  range("outer before");
  LegacyEventLists inner;
  on_thread([&] {
    enable_profiler(ProfilerConfig());
    range("inner before");
    {
      const ThreadLocalStateGuard guard(outer_state);
      CHECK_MESSAGE(StateError, "Profiler is already enabled on this thread",
                    enable_profiler(ProfilerConfig()));
      range("outer inside");
    }
    range("inner after");
    inner = disable_profiler();
  });
  const LegacyEventLists outer = disable_profiler();
  CHECK_EQ(inner.size(), 1u);
  CHECK_EQ(outer.size(), 2u);
  if (inner.size() != 1 || outer.size() != 2) return;
  CHECK_EQ(inner[0].size(), 6u);
  CHECK_EQ(inner[0][1].name, std::string("inner before"));
  CHECK_EQ(inner[0][3].name, std::string("inner after"));
  CHECK_EQ(outer[0].size(), 4u);
  CHECK_EQ(outer[1].size(), 2u);
  CHECK_EQ(outer[1][0].name, std::string("outer inside"));
}

TEST(many_threads_feed_one_profiler_and_nothing_is_lost) {
  constexpr int threads = 4, ranges = 500, calls = 20;
  enable_profiler(ProfilerConfig());
  std::vector<std::thread> workers;
  std::vector<RecordFunction*> handed(threads * ranges);
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back(propagate([&handed, t] {
      for (int i = 0; i < ranges; ++i) {
        auto* function = new RecordFunction;
        function->set_async();
        function->before("work");
        handed[static_cast<size_t>(t * ranges + i)] = function;
      }
      for (int i = 0; i < calls; ++i)
        add_remote_events(LegacyEventList{make_event(LegacyEventKind::Mark, "remote", 0, 1)});
    }));
  }
  for (std::thread& worker : workers) worker.join();
  workers.clear();
  // Each thread ends what all the others began, so every list is written by all threads at once.
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back(propagate([&handed, t] {
      for (size_t i = static_cast<size_t>(t); i < handed.size(); i += threads) delete handed[i];
    }));
  }
  for (std::thread& worker : workers) worker.join();
  const LegacyEventLists lists = disable_profiler();
  CHECK_EQ(lists.size(), static_cast<size_t>(1 + threads + threads * calls));
  std::set<uint64_t> begun, ended;
  for (const LegacyEventList& list : lists) {
    for (const LegacyEvent& event : list) {
      if (event.kind == LegacyEventKind::PushRange) CHECK(begun.insert(event.handle).second);
      if (event.kind == LegacyEventKind::PopRange) {
        CHECK(begun.count(event.handle) == 1);
        CHECK(ended.insert(event.handle).second);
      }
    }
  }
  CHECK_EQ(begun.size(), static_cast<size_t>(threads * ranges));
  CHECK_EQ(ended.size(), begun.size());
}

namespace {
// As an allocator's hook does: reports from inside malloc, with whatever the profiler allocates.
thread_local bool hook_on = false;
thread_local size_t hook_calls = 0;
}  // namespace

FASTPROF_NOINLINE void* operator new(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  if (hook_on) {
    ++hook_calls;
    report_memory_usage(memory, static_cast<int64_t>(size), 0, 0, {DeviceType::CPU, -1});
  }
  return memory;
}
FASTPROF_NOINLINE void operator delete(void* memory) noexcept {
  std::free(memory);
}
FASTPROF_NOINLINE void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

TEST(an_allocator_that_reports_from_inside_malloc_neither_recurses_nor_is_told_of_the_profiler) {
  ProfilerConfig config;
  config.profile_memory = true;
  enable_profiler(config);
  hook_calls = 0;
  hook_on = true;
  for (int i = 0; i < 2000; ++i) range("a name that is too long to be kept without an allocation");
  const size_t own = hook_calls;
  ::operator delete(::operator new(sizeof(int)));
  hook_on = false;
  const LegacyEventLists lists = disable_profiler();
  size_t reports = 0;
  int64_t bytes = 0;
  for (const LegacyEvent& event : lists.at(0)) {
    reports += event.kind == LegacyEventKind::MemoryAlloc;
    bytes += event.cpu_memory_bytes;
  }
  CHECK(own > 2000);
  CHECK_EQ(reports, 1u);
  CHECK_EQ(bytes, static_cast<int64_t>(sizeof(int)));
}
