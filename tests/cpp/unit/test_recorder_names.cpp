// SPDX-License-Identifier: Apache-2.0
// Names made at run time: the limit of their memory, truncation, and reclaiming between sessions.
#include <atomic>
#include <memory>
#include <thread>

#include "fastprof/recorder/names/reclaim_names.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site range_site = site_of_range("like");
constexpr fp::Site async_site = site_of_async("like");

// The smallest bound: names are reclaimed when a session ends with more than 16 KB of them.
fp::SessionOptions small() {
  fp::SessionOptions options;
  options.max_name_bytes = 65536;
  return options;
}

// More names than are kept for the next session.
void fill(const std::string& prefix, int count = 300) {
  for (int i = 0; i < count; ++i) {
    FASTPROF_RANGE_DYNAMIC(prefix + std::to_string(i));
  }
}

uint64_t epoch() {
  return fp::state()->name_epoch;
}

// A session with many names: those of earlier sessions are reclaimed afterwards.
void reclaim(const char* prefix = "filler ") {
  const uint64_t before = epoch();
  Running session(small());
  fill(prefix);
  session.stop();
  CHECK(epoch() > before);
}

}  // namespace

TEST(ten_million_names_scaled_down) {
  uint64_t most = 0;
  for (int round = 0; round < 20; ++round) {
    Running session;
    for (int i = 0; i < 40000; ++i) {
      FASTPROF_RANGE_DYNAMIC("step " + std::to_string(round) + " of " + std::to_string(i));
    }
    session.stop();
    CHECK_EQ(dropped(session.capture(), fp::DropCause::names), 0);
    CHECK_EQ(count_named(session.capture(), "<dynamic>"), 0);
    CHECK_EQ(session.capture().sites.size(), 40000);
    CHECK_EQ(name_of(session.capture(), 17), "step " + std::to_string(round) + " of 17");
    if (fp::state()->session_names.bytes > most) most = fp::state()->session_names.bytes;
  }
  CHECK(most < fp::kWarmNameBytes);
}

TEST(at_the_bound_events_share_a_name_and_are_counted) {
  Running session(small());
  fill("bounded ", 2000);
  const fp::Capture& capture = session.stop();
  const uint64_t shared = dropped(capture, fp::DropCause::names);
  CHECK_EQ(capture.size(), 2000);
  CHECK_EQ(capture.dropped_total(), 0);
  CHECK(shared > 1000 && shared < 2000);
  CHECK_EQ(count_named(capture, "<dynamic>"), shared);
  // The next session has the whole limit again.
  Running next(small());
  fill("after ", 100);
  next.stop();
  CHECK_EQ(dropped(next.capture(), fp::DropCause::names), 0);
  CHECK_EQ(count_named(next.capture(), "after 99"), 1);
}

TEST(strings_at_the_bound_are_counted) {
  Running session(small());
  for (int i = 0; i < 2000; ++i) {
    FASTPROF_RANGE_ARGS("text", "value", "string " + std::to_string(i));
  }
  session.stop();
  const uint64_t shared = dropped(session.capture(), fp::DropCause::names);
  CHECK(shared > 1000 && shared < 2000);
  CHECK_EQ(session.capture().strings.back(), "<too many strings>");
}

TEST(long_names_are_cut_with_a_mark_and_counted) {
  const std::string huge(10 << 20, 'n');
  const std::string accents = [] {
    std::string text;
    while (text.size() < 100000) text += "\xC3\xA9";
    return "x" + text;  // the limit falls within a character
  }();
  Running session;
  for (int i = 0; i < 20; ++i) {  // 200 MB
    FASTPROF_RANGE_DYNAMIC(huge);
  }
  { FASTPROF_RANGE_DYNAMIC(accents); }
  { FASTPROF_RANGE_ARGS("argument", "text", huge); }
  { FASTPROF_RANGE_DYNAMIC(std::string(65536, 'f')); }  // just fits
  const fp::Capture& capture = session.stop();
  CHECK_EQ(dropped(capture, fp::DropCause::names), 22);
  CHECK_EQ(capture.dropped_total(), 0);
  const std::string cut = std::string(65536, 'n') + "... [cut: 10485760 bytes]";
  CHECK_EQ(count_named(capture, cut), 20);
  CHECK_EQ(count_named(capture, accents.substr(0, 65535) + "... [cut: 100001 bytes]"), 1);
  CHECK_EQ(count_named(capture, std::string(65536, 'f')), 1);
  CHECK_EQ(capture.strings.at(0), cut);
  CHECK(fp::state()->session_names.bytes < (1u << 20));
}

TEST(the_bound_is_an_option) {
  fp::SessionOptions tiny;
  tiny.max_name_bytes = 1000;
  CHECK_THROWS(fp::ValueError, fp::Session(tiny).start());
  fp::Session wide;  // the larger bound holds while both run
  wide.start();
  Running narrow(small());
  fill("both ", 2000);
  narrow.stop();
  wide.stop();
  CHECK_EQ(dropped(narrow.capture(), fp::DropCause::names), 0);
}

TEST(open_ranges_keep_their_names) {
  auto session = std::make_unique<fp::Session>(small());
  session->start();
  fp::SessionOptions with_open = small();
  with_open.include_open = true;
  {
    FASTPROF_RANGE_DYNAMIC(std::string("open all the time"));
    FASTPROF_RANGE_ARGS("with text", "text", std::string("argument of an open range"));
    session->stop();
    reclaim("a ");
    reclaim("b ");
    Running late(with_open);
    late.stop();
    CHECK_EQ(count_named(late.capture(), "open all the time"), 1);
    CHECK_EQ(count_named(late.capture(), "with text"), 1);
    CHECK_EQ(late.capture().strings.at(0), "argument of an open range");
    CHECK_EQ(count_named(session->capture(), "open all the time"), 1);  // captures own their names
  }
}

TEST(ranges_begun_before_a_reclaim_end_harmlessly) {
  Running session(small());
  fp::RangeHandle moved, late;
  fp::AsyncHandle async;
  {
    fp::NameUse use;
    moved = fp::begin_range(*fp::session_site(use, range_site, "thread moved"));
    late = fp::begin_range(*fp::session_site(use, range_site, "late"));
    async = fp::begin_async(*fp::session_site(use, async_site, "async"));
  }
  session.stop();
  reclaim();
  fp::SessionOptions options = small();
  options.include_open = true;
  Running after(options);
  std::thread([&] {
    fp::end_range(moved);
    fp::end_async(async);
  }).join();
  // Many records: the chunk of `late` is not recycled, but the next one is begun.
  for (int i = 0; i < 10000; ++i) {
    FASTPROF_RANGE("other");
  }
  fp::end_range(late);
  const fp::Capture& capture = after.stop();
  CHECK_EQ(count_named(capture, "thread moved"), 1);
  CHECK(finished(capture, rows_named(capture, "thread moved").at(0)));
  CHECK(finished(capture, rows_named(capture, "late").at(0)));
  CHECK_EQ(count_named(capture, "async"), 0);
  CHECK_EQ(count_named(capture, "<ended>"), 0);
  fp::validate_capture(capture);
}

TEST(callbacks_read_names_of_ranges_that_outlive_a_reclaim) {
  static std::string seen;
  seen.clear();
  const auto handle = fp::add_global_callback(
      fp::RecordFunctionCallback(
          [](const fp::RecordFunction&) -> std::unique_ptr<fp::ObserverContext> { return nullptr; },
          [](const fp::RecordFunction& function, fp::ObserverContext*) {
            if (function.name().substr(0, 4) == "seen") seen += function.name();
          })
          .scopes({fp::RecordScope::USER_SCOPE}));
  {
    Running session(small());
    FASTPROF_RANGE_DYNAMIC(std::string("seen at the end"));
    fp::RecordFunction function(fp::RecordScope::USER_SCOPE);
    function.before(std::string("seen as well, "));
    session.stop();
    reclaim();
  }
  fp::remove_callback(handle);
  CHECK_EQ(seen, "seen as well, seen at the end");
}

TEST(a_forked_child_reclaims_on_its_own) {
  Running session(small());
  fill("parent ");
  const int status = in_child([] {
    fill("lost ");
    reclaim("child ");
    Running own;
    fill("own ");
    own.stop();
    CHECK_EQ(count_named(own.capture(), "own 299"), 1);
    return check::failures().load() == 0 ? 0 : 1;
  });
  CHECK_EQ(status, 0);
  session.stop();
  CHECK_EQ(count_named(session.capture(), "parent 299"), 1);
}

// Threads that record new names all the time, while sessions come and go and names are reclaimed.
TEST(threads_record_names_while_they_are_reclaimed) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&done, t] {
      const std::string prefix = "thread " + std::to_string(t) + " name ";
      fp::RangeHandle open;
      for (int i = 0; !done.load(std::memory_order_relaxed); ++i) {
        const std::string number = std::to_string(i % 100000);
        FASTPROF_RANGE_DYNAMIC(prefix + number);
        FASTPROF_RANGE_ARGS("thread", "text", prefix + number);
        if (i % 64 == 0) {  // open over many sessions
          fp::end_range(open);
          fp::NameUse use;
          open = fp::begin_range(*fp::session_site(use, range_site, prefix + number));
        }
      }
      fp::end_range(open);
    });
  }
  const uint64_t before = epoch();
  for (long i = 0; i < scaled(150); ++i) {
    fp::SessionOptions options = small();
    options.include_open = i % 2 == 0;
    options.max_bytes = 64 * 65536;
    Running session(options);
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    session.stop();
    for (size_t row = 0; row < session.capture().size(); ++row) {
      const std::string& name = name_of(session.capture(), row);
      const bool known = name.compare(0, 6, "thread") == 0 || name == "<dynamic>" || name == "like";
      if (!known) CHECK_EQ(name, "one of this test");
    }
    for (const std::string& text : session.capture().strings)
      CHECK(text.compare(0, 7, "thread ") == 0 || text == "<too many strings>");
    fp::validate_capture(session.capture());
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(epoch() > before + 5);
}

TEST(categories_have_the_names_of_kineto) {
  const std::pair<uint32_t, std::string> names[] = {
      {fp::category::user, "user_annotation"},   {fp::category::op, "cpu_op"},
      {fp::category::mark, "cpu_instant_event"}, {fp::category::memory, "cpu_instant_event"},
      {fp::category::counter, "counter"},        {fp::category::flow, "flow"},
      {fp::category::async, "user_annotation"},  {fp::category::python_call, "python_function"}};
  for (const auto& [mask, name] : names) CHECK_EQ(fp::default_category_name(mask), name);
}
