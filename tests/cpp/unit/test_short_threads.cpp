// SPDX-License-Identifier: Apache-2.0
// Short threads one after the other share chunks: none is dropped, and each record has its thread.
#include <thread>

#include "backing_file_checks.hpp"

using namespace recorder_checks;
using namespace backing_file_checks;

namespace {

// Thread i records `i + 1` times "step" with the argument i, at most 7 times.
int steps_of(int i) {
  return i % 7 + 1;
}
void run_thread(int i) {
  std::thread([i] {
    fp::set_thread_name((i % 3 == 0 ? "a thread with a long name " : "t") + std::to_string(i));
    for (int step = 0; step < steps_of(i); ++step) {
      FASTPROF_RANGE_ARGS("step", "thread", i);
    }
  }).join();
}

// Threads first to last - 1 are there, complete, each on a track of its own name.
void check_threads(const fp::Capture& capture, int first, int last) {
  fp::validate_capture(capture);
  std::vector<int> steps(static_cast<size_t>(last));
  std::vector<int64_t> thread_of_track(capture.tracks.size(), -1);
  for (const size_t row : rows_named(capture, "step")) {
    const fp::EventView event(capture, row);
    const int64_t i = event.arg_int64(0);
    ++steps[static_cast<size_t>(i)];
    CHECK(event.finished());
    CHECK_EQ(event.track().name,
             (i % 3 == 0 ? "a thread with a long name " : "t") + std::to_string(i));
    int64_t& thread = thread_of_track[capture.track[row]];
    CHECK(thread == -1 || thread == i);
    thread = i;
  }
  for (int i = 0; i < last; ++i)
    CHECK_EQ(steps[static_cast<size_t>(i)], i < first ? 0 : steps_of(i));
  CHECK_EQ(capture.dropped_total(), 0);
}

}  // namespace

TEST(three_chunks_are_enough_for_hundreds_of_threads) {
  Running earlier;
  for (int i = 0; i < 50; ++i) run_thread(i);
  Running session(with(&Options::max_bytes, 3 * fp::kChunkBytes));
  for (int i = 50; i < 600; ++i) run_thread(i);
  check_threads(session.stop(), 50, 600);
  for (const fp::TrackInfo& track : session.capture().tracks)
    CHECK(track.name != "t1" && track.name != "t49");
  check_threads(earlier.stop(), 0, 600);
}

TEST(they_are_complete_after_live_drains_and_snapshots) {
  Running session;
  for (int i = 0; i < 2000; ++i) {
    run_thread(i);
    if (i % 100 == 50) session.drain();
  }
  check_threads(session.stop(), 0, 2000);
  session.start();
  for (int i = 0; i < 200; ++i) {
    run_thread(i);
    if (i % 50 == 20) check_threads(session.capture_so_far(), 0, i + 1);
  }
  check_threads(session.stop(), 0, 200);
}

TEST(they_are_complete_in_a_spill_file) {
  Running session(with(&Options::overflow, fp::OverflowPolicy::spill_to_file, &Options::max_bytes,
                       2 * fp::kChunkBytes));
  for (int i = 0; i < 1500; ++i) run_thread(i);
  check_threads(session.stop(), 0, 1500);
}

TEST(they_are_read_from_the_file_of_a_killed_process) {
  const Folder folder;
  CHECK_EQ(killed([&] {
             Running session(backed(folder.file()));
             for (int i = 0; i < 1000; ++i) run_thread(i);
             ::raise(SIGKILL);
           }),
           SIGKILL);
  const fp::Recovered found = fp::recover(folder.file());
  check_threads(found.capture, 0, 1000);
  CHECK_EQ(found.unread_chunks + found.damaged + found.open_ranges, 0);
}

TEST(a_thread_local_session_has_only_its_own_part) {
  Running wide;
  run_thread(0);
  std::thread([] {
    Running local(with(&Options::thread_local_only, true));
    for (int i = 0; i < 10; ++i) {
      FASTPROF_RANGE("mine");
    }
    local.stop();
    CHECK_EQ(local.capture().size(), 10);
    CHECK_EQ(local.capture().tracks.size(), 1);
  }).join();
  run_thread(1);
  CHECK_EQ(count_named(wide.stop(), "mine"), 10);
  check_threads(wide.capture(), 0, 2);
}

TEST(a_range_that_its_thread_left_open_stays_open) {
  Running session;
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      static constexpr fp::Site open = site_of_range("open");
      fp::begin_slow(fp::state(), &open, nullptr);
    }).join();
    run_thread(i);
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(count_named(capture, "open"), 3);
  for (const size_t row : rows_named(capture, "open")) CHECK(!finished(capture, row));
  check_threads(capture, 0, 3);
}
