// SPDX-License-Identifier: Apache-2.0
// Ranges that a program reports through other interfaces: stacks by thread and domain, ranges that
// end on another thread, attributes, and sessions that start and stop meanwhile.
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "../check.hpp"
#include "backends/annotations/domain.hpp"
#include "backends/annotations/fork.hpp"
#include "backends/annotations/record_annotation.hpp"
#include "backends/annotations/wide_text.hpp"
#include "recorder_checks.hpp"
#include "temporary_folder.hpp"
#include "text_checks.hpp"

using namespace fastprof;
using recorder_checks::Running;
using namespace fastprof::annotations;

static int push(const void* domain, const char* name) {
  const uint32_t mask = recording_mask(category::user);
  return mask == 0 ? push_unrecorded(domain) : push_recorded(mask, domain, name);
}

static std::map<std::string, size_t> counts(const Session& session) {
  std::map<std::string, size_t> found;
  const Capture& capture = session.capture();
  for (size_t row = 0; row < capture.size(); ++row)
    ++found[capture.sites[static_cast<size_t>(capture.site[row])].name];
  return found;
}

TEST(each_domain_has_its_own_levels_and_order) {
  const int one = 0, other = 0;
  Running session;
  CHECK_EQ(push(&one, "a"), 0);
  CHECK_EQ(push(&other, "b"), 0);
  CHECK_EQ(push(&one, "c"), 1);
  CHECK_EQ(push(&other, "d"), 1);
  CHECK_EQ(pop_range(&one), 1);
  CHECK_EQ(pop_range(&one), 0);
  CHECK_EQ(pop_range(&one), kNoRange);
  CHECK_EQ(pop_range(&other), 1);
  CHECK_EQ(pop_range(&other), 0);
  session.stop();
  const auto found = counts(session);
  CHECK_EQ(found.size(), size_t{4});
  const Capture& capture = session.capture();
  for (size_t row = 0; row < capture.size(); ++row)
    CHECK((capture.flags[row] & event_flag::finished) != 0);
}

TEST(any_depth) {
  Running session;
  for (int i = 0; i < 1000; ++i) CHECK_EQ(push(nullptr, "deep"), i);
  for (int i = 1000; i-- != 0;) CHECK_EQ(pop_range(nullptr), i);
  session.stop();
  CHECK_EQ(counts(session)["deep"], size_t{1000});
}

TEST(pops_match_their_pushes_across_sessions) {
  Session first, second;
  first.start();
  push(nullptr, "first");
  first.stop();
  push(nullptr, "between");
  second.start();
  push(nullptr, "second");
  CHECK_EQ(pop_range(nullptr), 2);
  CHECK_EQ(pop_range(nullptr), 1);
  CHECK_EQ(pop_range(nullptr), 0);
  push(nullptr, "last");
  pop_range(nullptr);
  second.stop();
  CHECK_EQ(counts(second).size(), size_t{2});
}

TEST(attributes_become_arguments) {
  Running session;
  Attributes attributes;
  attributes.domain = "a domain";
  attributes.has_color = true;
  attributes.color = 0xFF00FF00;
  attributes.payload_type = PayloadType::integer;
  attributes.payload = static_cast<uint64_t>(int64_t{-3});
  push_recorded(recording_mask(category::user), nullptr, "range", attributes);
  pop_range(nullptr);
  mark_recorded("mark", attributes);
  end_async(start_recorded(recording_mask(category::async), "started", attributes));
  const Capture& capture = session.stop();
  CHECK_EQ(capture.size(), size_t{3});
  const fastprof_test::TemporaryFolder folder;
  session.write_chrome_trace(folder.path + "/trace.json");
  const std::string json = text_checks::contents(folder.path + "/trace.json");
  CHECK_EQ(text_checks::count_of(json, "\"a domain\""), size_t{3});
  CHECK(text_checks::has(json, "0xff00ff00"));
}

TEST(ranges_end_on_any_thread_once) {
  StartedRanges& ranges = StartedRanges::of_process();
  Running session;
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 100; ++i)
    numbers.push_back(ranges.add(start_recorded(recording_mask(category::async), "crossing", {})));
  std::thread other([&] {
    for (const uint64_t number : numbers) end_async(ranges.take(number));
  });
  other.join();
  CHECK(!ranges.take(numbers[0]));
  CHECK(!ranges.take(0));
  session.stop();
  CHECK_EQ(counts(session)["crossing"], size_t{100});
}

TEST(threads_push_while_sessions_start_and_stop) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&stop, t] {
      const int domain = 0;
      for (int i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        push(nullptr, "outer");
        push(&domain, i % 2 == 0 ? "even" : "odd");
        CHECK_EQ(pop_range(&domain) <= 0, true);
        pop_range(nullptr);
        const uint64_t number = StartedRanges::of_process().add(
            recording_mask(category::async) != 0
                ? start_recorded(recording_mask(category::async), "started", {})
                : AsyncHandle{});
        end_async(StartedRanges::of_process().take(number));
        if (i % 64 == t) name_thread(0, "worker");
      }
    });
  size_t recorded = 0;
  for (int round = 0; round < 20 || recorded == 0; ++round) {  // until the threads have begun
    Running session;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    session.stop();
    recorded += session.capture().size();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// A thread that is registering texts nearly always holds the lock when the process forks.
TEST(children_register_texts_although_a_thread_of_the_parent_did) {
  watch_forks();
  std::atomic<bool> stop{false};
  std::thread registering([&] {
    for (int i = 0; !stop.load(std::memory_order_relaxed); ++i)
      register_text("text " + std::to_string(i % 1000));
  });
  for (int i = 0; i < 50; ++i) {
    const int status = recorder_checks::in_child([]() -> int {
      ::alarm(20);  // ends a child that waits for the lock
      const RegisteredText* text = register_text("of the child");
      const bool is_right = text != nullptr && text->text == "of the child" &&
                            register_text("of the child") == text &&
                            Domain::of_name("child") == Domain::of_name("child");
      ::_exit(is_right ? 0 : 1);  // not exit(): what the parent has made is no leak of the child
    });
    CHECK_EQ(status, 0);
  }
  stop.store(true, std::memory_order_relaxed);
  registering.join();
}

TEST(wide_text_is_converted) {
  CHECK_EQ(utf8_of(L"a\u00e4\u20ac\U0001F600"),
           std::string("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"));
  const wchar_t wrong[] = {static_cast<wchar_t>(0xD800), static_cast<wchar_t>(0x110000), 0};
  CHECK_EQ(utf8_of(wrong), std::string("\xEF\xBF\xBD\xEF\xBF\xBD"));
  CHECK_EQ(utf8_of(nullptr), std::string());
}
