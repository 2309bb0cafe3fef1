// SPDX-License-Identifier: Apache-2.0
// Thread-local sessions: they contain their own thread, and threads to which membership is
// propagated.
#include <atomic>
#include <thread>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

fp::SessionOptions local_options() {
  fp::SessionOptions options;
  options.thread_local_only = true;
  return options;
}

}  // namespace

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
  Running local(local_options());
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
  CHECK_EQ(count_named(local.capture(), "job"), 2);
  CHECK_EQ(count_named(local.capture(), "mine"), 1);
  CHECK_EQ(local.capture().size(), 3);
}

TEST(membership_survives_a_change_of_chunks) {
  Running local(local_options());
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
  Running local(options);
  constexpr int kCount = 50000;
  for (int i = 0; i < kCount; ++i) {
    FASTPROF_RANGE("mine");
  }
  { FASTPROF_RANGE("last"); }
  const fp::Capture& capture = local.stop();
  CHECK(capture.size() > 5000);
  CHECK_EQ(count_named(capture, "last"), 1);
  CHECK_EQ(capture.size() + dropped(capture, fp::DropCause::overwritten), kCount + 1);
}

TEST(a_thread_local_session_stopped_elsewhere) {
  Running wide;
  Running local(local_options());
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
  // The process-wide session contains no internal records.
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
  std::thread([&] { job(); }).join();  // one of two jobs is left
  { FASTPROF_RANGE("3"); }
  outer.stop();
  CHECK_EQ(inner.capture().size(), 2);
  CHECK_EQ(outer.capture().size(), 5);
  CHECK_EQ(count_named(outer.capture(), "job"), 2);
}

TEST(thread_local_enclosing_ranges_of_the_starting_thread) {
  Running background;
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
