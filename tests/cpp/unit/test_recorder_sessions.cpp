// SPDX-License-Identifier: Apache-2.0
// Sessions as intervals: nested, overlapping, thread-local, started and stopped anywhere; what is
// theirs and what is not.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site loose_site =
    fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, "loose",
                  __FILE__, "", __LINE__);

fp::SessionOptions local_options() {
  fp::SessionOptions options;
  options.thread_local_only = true;
  return options;
}

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
  fp::SessionOptions tiny;
  tiny.max_bytes = 65535;
  fp::Session small(tiny);
  CHECK_THROWS(fp::ValueError, small.start());
}

TEST(a_session_may_be_started_again) {
  fp::Session session;
  for (int i = 0; i < 5; ++i) {
    session.start();
    CHECK_EQ(session.capture().size(), 0);
    for (int k = 0; k <= i; ++k) {
      FASTPROF_RANGE("again");
    }
    session.stop();
    CHECK_EQ(session.capture().size(), i + 1);
  }
}

TEST(sixty_four_sessions_at_once_and_no_more) {
  std::vector<std::unique_ptr<fp::Session>> sessions;
  for (int i = 0; i < 64; ++i) {
    sessions.push_back(std::make_unique<fp::Session>());
    sessions.back()->start();
    FASTPROF_RANGE("step");
  }
  fp::Session one_more;
  CHECK_THROWS(fp::StateError, one_more.start());
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
  fp::Session c;
  c.start();
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
  fp::Session session;
  session.start();
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

TEST(an_open_range_is_a_parent) {
  fp::Session session;
  session.start();
  const fp::RangeHandle loose = fp::begin_range(loose_site);
  { FASTPROF_RANGE("child"); }
  session.stop();
  fp::end_range(loose);
  CHECK_EQ(parent_name(session.capture(), rows_named(session.capture(), "child").at(0)), "loose");
}

TEST(begun_before_the_start_is_not_in_it_unless_asked_for) {
  fp::Session background;
  background.start();
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
  fp::Session background;
  background.start();
  fp::SessionOptions with_open;
  with_open.include_open = true;
  fp::Session open(with_open);
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
  fp::Session background;
  background.start();
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
  fp::SessionOptions with_open;
  with_open.include_open = true;
  fp::Session open(with_open);
  open.start();
  step.store(2);
  other.join();
  open.stop();
  background.stop();
  CHECK_EQ(open.capture().size(), 1);
  CHECK(finished(open.capture(), 0));
}

TEST(thread_local_sessions_see_their_thread_only) {
  fp::Session local(local_options());
  std::atomic<int> step{0};
  std::thread other([&] {
    while (step.load() < 1) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) {
      FASTPROF_RANGE("theirs");
    }
    step.store(2);
  });
  local.start();
  step.store(1);
  for (int i = 0; i < 10; ++i) {
    FASTPROF_RANGE("mine");
  }
  other.join();
  local.stop();
  { FASTPROF_RANGE("after"); }
  CHECK_EQ(local.capture().size(), 10);
  CHECK_EQ(local.capture().tracks.size(), 1);
}

TEST(thread_local_and_process_wide_at_once) {
  fp::Session local(local_options()), wide;
  local.start();
  { FASTPROF_RANGE("mine"); }
  wide.start();
  std::thread([] { FASTPROF_RANGE("theirs"); }).join();
  { FASTPROF_RANGE("mine"); }
  wide.stop();
  std::thread([] { FASTPROF_RANGE("theirs"); }).join();
  { FASTPROF_RANGE("mine"); }
  local.stop();
  CHECK_EQ(local.capture().size(), 3);
  CHECK_EQ(count_named(local.capture(), "mine"), 3);
  CHECK_EQ(wide.capture().size(), 2);
}

TEST(propagation_carries_membership_and_takes_it_back) {
  fp::Session local(local_options());
  local.start();
  auto job = fp::propagate([] { FASTPROF_RANGE("job"); });
  std::thread worker([&] {
    { FASTPROF_RANGE("not mine"); }
    job();
    { FASTPROF_RANGE("not mine"); }
    job();
    { FASTPROF_RANGE("not mine"); }
  });
  worker.join();
  { FASTPROF_RANGE("mine"); }
  local.stop();
  fp::validate_capture(local.capture());
  CHECK_EQ(count_named(local.capture(), "job"), 2);
  CHECK_EQ(count_named(local.capture(), "mine"), 1);
  CHECK_EQ(local.capture().size(), 3);
}

TEST(propagation_beside_a_process_wide_session) {
  fp::Session wide, local(local_options());
  wide.start();
  local.start();
  auto job = fp::propagate([] { FASTPROF_RANGE("job"); });
  std::thread([&] {
    { FASTPROF_RANGE("theirs"); }
    job();
    { FASTPROF_RANGE("theirs"); }
  }).join();
  local.stop();
  wide.stop();
  CHECK_EQ(local.capture().size(), 1);
  CHECK_EQ(wide.capture().size(), 3);
}

TEST(membership_survives_a_change_of_chunks) {
  fp::Session local(local_options());
  local.start();
  auto job = fp::propagate([] {
    for (int i = 0; i < 10000; ++i) {
      FASTPROF_RANGE("job");
    }
  });
  std::thread([&] {
    job();
    { FASTPROF_RANGE("not mine"); }
  }).join();
  for (int i = 0; i < 10000; ++i) {
    FASTPROF_RANGE("mine");
  }
  local.stop();
  CHECK_EQ(count_named(local.capture(), "job"), 10000);
  CHECK_EQ(count_named(local.capture(), "mine"), 10000);
  CHECK_EQ(local.capture().size(), 20000);
}

TEST(a_thread_local_overwriting_session_keeps_its_newest) {
  fp::SessionOptions options = local_options();
  options.overflow = fp::OverflowPolicy::overwrite_oldest;
  options.max_bytes = 4 * 65536;
  fp::Session local(options);
  local.start();
  constexpr int kCount = 50000;
  for (int i = 0; i < kCount; ++i) {
    FASTPROF_RANGE("mine");
  }
  { FASTPROF_RANGE("last"); }
  local.stop();
  const fp::Capture& capture = local.capture();
  CHECK(capture.size() > 5000);
  CHECK_EQ(count_named(capture, "last"), 1);
  CHECK_EQ(capture.size() + dropped(capture, fp::DropCause::overwritten), kCount + 1);
}

TEST(a_thread_local_session_stopped_elsewhere) {
  fp::Session wide;
  wide.start();
  fp::Session local(local_options());
  local.start();
  { FASTPROF_RANGE("mine"); }
  std::thread([&] { local.stop(); }).join();
  { FASTPROF_RANGE("late"); }
  // The next one takes the same slot of the recorder; the thread is not in it by what it was in
  // before.
  std::atomic<bool> started{false}, done{false};
  fp::Session next(local_options());
  std::thread other([&] {
    next.start();
    started.store(true);
    while (!done.load()) std::this_thread::yield();
    { FASTPROF_RANGE("theirs"); }
    next.stop();
  });
  while (!started.load()) std::this_thread::yield();
  { FASTPROF_RANGE("stale"); }
  fp::propagate([] { FASTPROF_RANGE("stale"); })();
  done.store(true);
  other.join();
  wide.stop();
  CHECK_EQ(local.capture().size(), 1);
  CHECK_EQ(next.capture().size(), 1);
  CHECK_EQ(count_named(next.capture(), "theirs"), 1);
  // Nothing of the bookkeeping shows in the process-wide one.
  CHECK_EQ(wide.capture().size(), 5);
}

TEST(nested_thread_local_sessions) {
  fp::Session outer(local_options()), inner(local_options());
  outer.start();
  { FASTPROF_RANGE("1"); }
  inner.start();
  auto job = fp::propagate([] { FASTPROF_RANGE("job"); });
  { FASTPROF_RANGE("2"); }
  std::thread([&] { job(); }).join();
  inner.stop();
  std::thread([&] { job(); }).join();  // of two, one is left
  { FASTPROF_RANGE("3"); }
  outer.stop();
  CHECK_EQ(inner.capture().size(), 2);
  CHECK_EQ(outer.capture().size(), 5);
  CHECK_EQ(count_named(outer.capture(), "job"), 2);
}

TEST(thread_local_enclosing_ranges_of_the_starting_thread) {
  fp::Session background;
  background.start();
  std::atomic<int> step{0};
  std::thread other([&] {
    FASTPROF_RANGE("elsewhere");
    step.store(1);
    while (step.load() < 2) std::this_thread::yield();
  });
  while (step.load() < 1) std::this_thread::yield();
  fp::SessionOptions options = local_options();
  options.include_open = true;
  fp::Session local(options);
  {
    FASTPROF_RANGE("around");
    local.start();
    local.stop();
  }
  step.store(2);
  other.join();
  background.stop();
  CHECK_EQ(local.capture().size(), 1);
  CHECK_EQ(count_named(local.capture(), "around"), 1);
}

TEST(a_session_is_stopped_on_another_thread_or_by_its_destructor) {
  fp::Session session;
  std::thread([&] { session.start(); }).join();
  { FASTPROF_RANGE("x"); }
  std::thread([&] { session.stop(); }).join();
  CHECK_EQ(session.capture().size(), 1);
  {
    fp::Session abandoned;
    abandoned.start();
    { FASTPROF_RANGE("x"); }
  }
  CHECK_EQ(fp::load_relaxed(&fp::state()->mask), 0);
  CHECK_EQ(fp::state()->session_bits, 0);
}

TEST(live_drain_moves_what_is_finished) {
  fp::Session session;
  session.start();
  CHECK_EQ(session.drain(), 0);
  size_t drained = 0;
  {
    FASTPROF_RANGE("around everything");
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 3000; ++i) {
        FASTPROF_RANGE("work");
      }
      const size_t now = session.drain();
      CHECK(now >= drained);
      drained = now;
    }
    // The range around it all holds one chunk back, not all.
    CHECK(drained > 40000);
  }
  session.stop();
  const fp::Capture& capture = session.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 60001);
  CHECK_EQ(capture.dropped_total(), 0);
  CHECK_EQ(name_of(capture, 0), "around everything");
  CHECK(finished(capture, 0));
  size_t children = 0;
  for (size_t i = 1; i < capture.size(); ++i) children += capture.parent[i] == 0 ? 1 : 0;
  CHECK_EQ(children, 60000);
}

TEST(live_drain_makes_room) {
  fp::SessionOptions options;
  options.max_bytes = 4 * 65536;
  fp::Session session(options);
  session.start();
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 5000; ++i) {
      FASTPROF_RANGE("work");
    }
    session.drain();
  }
  session.stop();
  CHECK_EQ(session.capture().size(), 250000);
  CHECK_EQ(session.dropped_events(), 0);
}

TEST(live_drain_of_an_overwriting_session_reads_each_record_once) {
  fp::SessionOptions options;
  options.max_bytes = 4 * 65536;
  options.overflow = fp::OverflowPolicy::overwrite_oldest;
  fp::Session session(options);
  session.start();
  constexpr size_t kRounds = 40, kEach = 4000;
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < kEach; ++i) {
      FASTPROF_RANGE("work");
    }
    session.drain();
  }
  session.stop();
  CHECK_EQ(session.capture().size() + session.dropped_events(), kRounds * kEach);
  CHECK_EQ(session.dropped_events(), 0);  // drained before it came round
  for (size_t i = 1; i < session.capture().size(); ++i)
    if (session.capture().start_ns[i] < session.capture().start_ns[i - 1]) CHECK(false);
  CHECK_EQ(fp::state()->session_bits, 0);
}

TEST(drain_while_others_record) {
  // A small bound: what the recorders produce during one drain is the work of the next.
  fp::SessionOptions options;
  options.max_bytes = 4 << 20;
  fp::Session session(options);
  session.start();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> produced{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      uint64_t count = 0;
      while (!stop.load() && count < 50000) {
        for (int i = 0; i < 1000; ++i) {
          FASTPROF_RANGE("outer");
          FASTPROF_RANGE("inner");
          ++count;
        }
        std::this_thread::yield();
      }
      produced.fetch_add(count);
    });
  for (int i = 0; i < 20; ++i) {
    session.drain();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  session.stop();
  const fp::Capture& capture = session.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size() + capture.dropped_total(), 2 * produced.load());
  size_t wrong = 0;
  for (size_t i = 0; i < capture.size(); ++i) {
    if (!finished(capture, i)) ++wrong;
    if (name_of(capture, i) == "inner" && capture.dropped_total() == 0 &&
        parent_name(capture, i) != "outer")
      ++wrong;
  }
  CHECK_EQ(wrong, 0);
}
