// SPDX-License-Identifier: Apache-2.0
// Sessions as intervals: nested, overlapping, started and stopped anywhere; which records belong to
// each.
#include <atomic>
#include <memory>
#include <thread>

#include "backing_file_checks.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site loose_site = site_of_range("loose");

}  // namespace

TEST(a_session_has_what_began_inside_it) {
  { FASTPROF_RANGE("before"); }
  fp::Session session;
  CHECK(!session.running());
  session.start();
  CHECK(session.running());
  {
    FASTPROF_RANGE("outer");
    FASTPROF_RANGE("inner");
  }
  const fp::Capture& capture = session.stop();
  CHECK(!session.running());
  { FASTPROF_RANGE("after"); }
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 2);
  CHECK_EQ(name_of(capture, 0), "outer");
  CHECK_EQ(name_of(capture, 1), "inner");
  CHECK_EQ(capture.parent[0], -1);
  CHECK_EQ(capture.parent[1], 0);
  CHECK(finished(capture, 0) && finished(capture, 1));
  CHECK(capture.t0_ns <= capture.start_ns[0]);
  CHECK(capture.start_ns[0] <= capture.start_ns[1]);
  CHECK(capture.end_ns[1] <= capture.end_ns[0]);
  CHECK(capture.end_ns[0] <= capture.t1_ns);
  CHECK_EQ(capture.dropped_total(), 0);
  CHECK_EQ(capture.pid, ::getpid());
  CHECK_EQ(capture.tracks.size(), 1);
  CHECK_EQ(capture.tracks[0].tid, ::gettid());
}

TEST(wrong_calls_are_refused) {
  fp::Session session;
  CHECK_THROWS(fp::StateError, session.stop());
  CHECK_THROWS(fp::StateError, session.drain());
  session.start();
  CHECK_THROWS(fp::StateError, session.start());
  session.stop();
  CHECK_THROWS(fp::StateError, session.stop());
  fp::Session small(with(&Options::max_bytes, 65535));
  CHECK_THROWS(fp::ValueError, small.start());
}

TEST(sessions_that_run_together_record_the_same_details) {
  const backing_file_checks::Folder folder;
  fp::Session first(with(&Options::cpp_stacks, true));
  first.start();
  Options options;
  options.counters = {"task-clock"};
  options.backing_file = folder.file();
  if (fp::probe_counters(options.counters).available) {
    fp::Session other(options);
    CHECK_THROWS(fp::StateError, other.start());
    CHECK(::access(options.backing_file.c_str(), F_OK) != 0);
  }
  fp::Session same(with(&Options::cpp_stacks, true));
  same.start();
  { FASTPROF_RANGE("in both"); }
  CHECK_EQ(first.stop().size(), 1);
  CHECK_EQ(same.stop().size(), 1);
}

TEST(sixty_four_sessions_at_once_and_no_more) {
  fp::Session earlier;
  earlier.start();
  { FASTPROF_RANGE("earlier"); }
  earlier.stop();
  std::vector<std::unique_ptr<fp::Session>> sessions;
  for (int i = 0; i < 64; ++i) {
    sessions.push_back(std::make_unique<fp::Session>());
    sessions.back()->start();
    FASTPROF_RANGE("step");
  }
  fp::Session one_more;
  CHECK_THROWS(fp::StateError, one_more.start());
  CHECK_THROWS(fp::StateError, earlier.start());
  CHECK_EQ(count_named(earlier.capture(), "earlier"), 1);  // nothing was started in its place
  for (size_t i = 0; i < 64; ++i) {
    const fp::Capture& capture = sessions[i]->stop();
    CHECK_EQ(count_named(capture, "step"), 64 - i);
  }
  one_more.start();
  { FASTPROF_RANGE("step"); }
  one_more.stop();
  CHECK_EQ(one_more.capture().size(), 1);
}

TEST(nested_and_overlapping_sessions_see_all_of_theirs) {
  fp::Session a, b;
  a.start();
  { FASTPROF_RANGE("1"); }
  b.start();
  { FASTPROF_RANGE("2"); }
  Running c;
  { FASTPROF_RANGE("3"); }
  a.stop();
  { FASTPROF_RANGE("4"); }
  c.stop();
  { FASTPROF_RANGE("5"); }
  b.stop();
  const auto names = [](const fp::Capture& capture) {
    std::string all;
    for (size_t i = 0; i < capture.size(); ++i) all += name_of(capture, i);
    return all;
  };
  CHECK_EQ(names(a.capture()), "123");
  CHECK_EQ(names(b.capture()), "2345");
  CHECK_EQ(names(c.capture()), "34");
}

TEST(each_session_has_its_own_categories) {
  fp::SessionOptions user, custom;
  user.categories = fp::category::user;
  custom.categories = fp::category::custom0;
  fp::Session a(user), b(custom);
  a.start();
  b.start();
  {
    FASTPROF_RANGE("user");
    FASTPROF_RANGE_IN(fp::category::custom0, "custom");
    FASTPROF_RANGE_IN(fp::category::custom0 | fp::category::user, "both");
    FASTPROF_RANGE_IN(fp::category::runtime, "neither");
    FASTPROF_MARK("mark");
  }
  a.stop();
  b.stop();
  CHECK_EQ(a.capture().size(), 2);
  CHECK_EQ(count_named(a.capture(), "user"), 1);
  CHECK_EQ(count_named(a.capture(), "both"), 1);
  CHECK_EQ(b.capture().size(), 2);
  CHECK_EQ(count_named(b.capture(), "custom"), 1);
}

TEST(open_at_stop_is_unfinished_whenever_it_ends) {
  Running session;
  fp::RangeHandle loose = fp::begin_range(loose_site);
  CHECK(bool(loose));
  session.stop();
  fp::end_range(loose);
  const fp::Capture& capture = session.capture();
  CHECK_EQ(capture.size(), 1);
  CHECK(!finished(capture, 0));
  CHECK_EQ(capture.end_ns[0], capture.t1_ns);

  // A range that another session sees end is still open in the one that stopped before.
  fp::Session outer, inner;
  outer.start();
  inner.start();
  loose = fp::begin_range(loose_site);
  inner.stop();
  fp::end_range(loose);
  outer.stop();
  CHECK_EQ(inner.capture().size(), 1);
  CHECK(!finished(inner.capture(), 0));
  CHECK_EQ(outer.capture().size(), 1);
  CHECK(finished(outer.capture(), 0));
}

TEST(begun_before_the_start_is_not_in_it_unless_asked_for) {
  Running background;
  fp::SessionOptions with_open;
  with_open.include_open = true;
  fp::Session plain, open(with_open);
  { FASTPROF_RANGE("over soon"); }
  {
    FASTPROF_RANGE("enclosing 1");
    FASTPROF_RANGE("enclosing 2");
    plain.start();
    open.start();
    FASTPROF_RANGE("inside");
  }
  plain.stop();
  open.stop();
  background.stop();
  CHECK_EQ(plain.capture().size(), 1);
  const fp::Capture& capture = open.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 3);
  CHECK_EQ(name_of(capture, 0), "enclosing 1");
  CHECK((capture.flags[0] & fp::event_flag::enclosing) != 0);
  CHECK((capture.flags[1] & fp::event_flag::enclosing) != 0);
  CHECK((capture.flags[2] & fp::event_flag::enclosing) == 0);
  CHECK_EQ(parent_name(capture, 2), "enclosing 2");
  CHECK(capture.start_ns[0] < capture.t0_ns);
  CHECK_EQ(background.capture().size(), 4);
}

TEST(enclosing_ranges_in_recycled_and_full_chunks_are_listed_too) {
  Running background;
  fp::Session open(with(&Options::include_open, true));
  {
    FASTPROF_RANGE("far away");
    for (int i = 0; i < 10000; ++i) {
      FASTPROF_RANGE("filler");
    }
    open.start();
  }
  open.stop();
  background.stop();
  CHECK_EQ(open.capture().size(), 1);
  CHECK_EQ(name_of(open.capture(), 0), "far away");
}

TEST(a_range_that_another_thread_ended_before_the_start_is_not_enclosing) {
  Running background;
  const fp::RangeHandle ended = fp::begin_range(loose_site);
  const fp::RangeHandle open_still = fp::begin_range(loose_site);
  std::atomic<int> step{0};
  std::thread other([&] {
    fp::end_range(ended);
    step.store(1);
    while (step.load() < 2) std::this_thread::yield();
    fp::end_range(open_still);
  });
  while (step.load() < 1) std::this_thread::yield();
  Running open(with(&Options::include_open, true));
  step.store(2);
  other.join();
  open.stop();
  background.stop();
  CHECK_EQ(open.capture().size(), 1);
  CHECK(finished(open.capture(), 0));
}

TEST(a_session_is_stopped_on_another_thread_or_by_its_destructor) {
  fp::Session session;
  std::thread([&] { session.start(); }).join();
  { FASTPROF_RANGE("x"); }
  std::thread([&] { session.stop(); }).join();
  CHECK_EQ(session.capture().size(), 1);
  {
    Running abandoned;
    { FASTPROF_RANGE("x"); }
  }
  CHECK_EQ(fp::load_relaxed(&fp::state()->mask), 0);
  CHECK_EQ(fp::state()->session_bits, 0);
}

TEST(a_forked_child_has_an_empty_session_or_none) {
  for (const bool follow : {false, true}) {
    Running session(with(&Options::follow_fork, follow));
    { FASTPROF_RANGE("before"); }
    session.drain();
    const int status = in_child([&] {
      if (session.running() != follow) return 1;
      if (!follow) return 0;
      { FASTPROF_RANGE("child"); }
      session.stop();
      return session.capture().size() == 1 && count_named(session.capture(), "child") == 1 ? 0 : 2;
    });
    CHECK_EQ(status, 0);
    { FASTPROF_RANGE("after"); }
    session.stop();
    CHECK_EQ(session.capture().size(), 2);
  }
}

TEST(a_forked_child_may_start_the_parents_session_anew) {
  // The child's spill thread gets the address of the parent's. ThreadSanitizer believes the latter
  // to be running in the child and ends the process. AddressSanitizer of gcc 12 forks while a
  // thread holds a lock of its allocator, and a thread of the child then waits for it for ever (one
  // fork in a hundred here). qemu-user 7.2 fails an assertion of its own.
  const bool threads_of_children_work =
      !FASTPROF_TSAN && !FASTPROF_ASAN && std::getenv("FASTPROF_TEST_EMULATOR") == nullptr;
  for (const auto policy : {fp::OverflowPolicy::drop_newest, fp::OverflowPolicy::spill_to_file}) {
    if (policy == fp::OverflowPolicy::spill_to_file && !threads_of_children_work) continue;
    Running session(with(&Options::overflow, policy));
    { FASTPROF_RANGE("parent"); }
    const int status = in_child([&] {
      ::alarm(20);  // it once waited for the parent's spill thread, which a child does not have
      session.start();
      { FASTPROF_RANGE("child"); }
      session.stop();
      return session.capture().size() == 1 && count_named(session.capture(), "child") == 1 ? 0 : 1;
    });
    CHECK_EQ(status, 0);
    CHECK_EQ(count_named(session.stop(), "parent"), 1);
  }
}
