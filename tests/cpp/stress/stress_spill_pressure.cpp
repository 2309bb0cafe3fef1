// SPDX-License-Identifier: Apache-2.0
// Back-pressure of spilling sessions: a small bound loses nothing while the file can be written,
// and what a full disk, a stop or a fork costs is counted or gone, without a hang.
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "process_changes.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using process_changes::FileLimit;

namespace {

Options spilling(uint64_t max_bytes) {
  return with(&Options::max_bytes, max_bytes, &Options::overflow,
              fastprof::OverflowPolicy::spill_to_file);
}

// 2 * n + 1 ranges at full speed, none of them out of another.
void record(uint64_t n) {
  FASTPROF_RANGE("whole");
  for (uint64_t i = 0; i < n; ++i) {
    FASTPROF_RANGE_ARGS("step", "i", i);
    FASTPROF_RANGE("inner");
  }
}

void record_on(int threads, uint64_t n) {
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back(record, n);
  for (std::thread& thread : all) thread.join();
}

// Ranges deeper than the bound has chunks: each of these stays open.
void record_deep(int depth) {
  FASTPROF_RANGE("deep");
  record(3000);
  if (depth > 0) record_deep(depth - 1);
}

int count_unlinked() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) {
    struct stat facts;
    if (::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0) ++count;
  }
  return count;
}

// Whoever started this process may have such files, too, for example its output.
const int inherited_files = count_unlinked();

int count_files() {
  return count_unlinked() - inherited_files;
}

}  // namespace

TEST(two_chunks_keep_everything) {
  for (const int threads : {1, 4}) {
    Running session(spilling(128 * 1024));
    record_on(threads, 100000);
    session.stop();
    fastprof::validate_capture(session.capture());
    CHECK_EQ(session.capture().size(), static_cast<size_t>(threads) * 200001);
    CHECK_EQ(session.dropped_events(), 0u);
    CHECK(session.spilled_bytes() > 1000000u);
    CHECK_EQ(session.spill_error(), 0);
    CHECK_EQ(count_files(), 0);
  }
}

TEST(open_ranges_take_what_they_need_beyond_the_bound) {
  Running session(spilling(64 * 1024));
  record_deep(20);
  session.stop();
  CHECK_EQ(session.capture().size(), 21u + 21u * 6001u);
  CHECK_EQ(session.dropped_events(), 0u);
}

TEST(two_spilling_sessions_and_a_plain_one_each_see_everything) {
  fastprof::Session first(spilling(128 * 1024)), second(spilling(1 << 20)), plain;
  first.start();
  plain.start();
  second.start();
  record_on(2, 50000);
  second.stop();
  plain.stop();
  first.stop();
  for (const fastprof::Session* session : {&first, &second, &plain}) {
    CHECK_EQ(session->capture().size(), 2u * 100001u);
    CHECK_EQ(session->dropped_events(), 0u);
  }
}

TEST(a_full_disk_is_counted) {
  Running session(spilling(256 * 1024));
  {
    const FileLimit limit(1 << 20);
    record_on(3, 100000);
  }
  const fastprof::Capture& capture = session.stop();
  CHECK_EQ(capture.size() + capture.dropped_total(), 3u * 200001u);
  CHECK_EQ(session.spill_error(), EFBIG);
  CHECK(dropped(capture, fastprof::DropCause::spill_failed) > 100000u);
  CHECK_EQ(dropped(capture, fastprof::DropCause::bound), 0u);
  CHECK(capture.size() > (1u << 20) / 48);  // what the disk took is kept
  fastprof::validate_capture(capture);
}

TEST(a_disk_that_recovers_is_used_again) {
  Running session(spilling(128 * 1024));
  {
    const FileLimit limit(0);
    record(50000);
  }
  const auto failing = [s = fastprof::state()] {
    fastprof::StateLock hold(s);
    return (s->sessions[0].spill_state & fastprof::spill_state::failing) != 0;
  };
  CHECK(failing());
  while (failing())  // until a pass of its own accord
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  record(50000);
  const fastprof::Capture& capture = session.stop();
  CHECK_EQ(capture.size() + capture.dropped_total(), 2u * 100001u);
  CHECK(capture.size() > 100000u);
}

// Every range that a thread began within the session's time is in the capture or counted.
TEST(stops_while_threads_wait_lose_nothing) {
  for (int round = 0; round < 30; ++round) {
    std::atomic<bool> go{true};
    std::atomic<uint64_t> begun{0};
    Running session(spilling(64 * 1024));
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        uint64_t mine = 0;
        while (go.load(std::memory_order_relaxed)) {
          FASTPROF_RANGE("step");
          ++mine;
        }
        begun.fetch_add(mine);
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    session.stop();
    go.store(false);
    for (std::thread& thread : threads) thread.join();
    // A thread that the machine did not run for 1 ms in the middle of a record is "in flight".
    CHECK_EQ(session.dropped_events(), dropped(session.capture(), fastprof::DropCause::in_flight));
    CHECK(session.capture().size() <= begun.load());
    fastprof::validate_capture(session.capture());
    CHECK_EQ(count_files(), 0);
  }
}

#if !FASTPROF_TSAN  // which ends a forked child that starts a thread
TEST(a_forked_child_has_no_spill_file) {
  Running session(spilling(128 * 1024));
  record(20000);
  CHECK_EQ(count_files(), 1);
  std::thread other(record, 50000);
  const int status = in_child([] {
    fastprof::Session own(spilling(128 * 1024));
    if (count_files() != 0) return 1;
    own.start();
    record(20000);
    own.stop();
    return own.capture().size() == 40001 && own.dropped_events() == 0 ? 0 : 2;
  });
  CHECK_EQ(status, 0);
  other.join();
  session.stop();
  CHECK_EQ(session.capture().size(), 40001u + 100001u);
  CHECK_EQ(session.dropped_events(), 0u);
}

#endif

TEST(abandoned_sessions_leave_nothing) {
  {
    Running session(spilling(128 * 1024));
    record(20000);
  }
  CHECK_EQ(count_files(), 0);
  fastprof::SessionOptions bad = spilling(128 * 1024);
  bad.spill_folder = "/no/such/folder";
  fastprof::Session session(bad);
  CHECK_THROWS(fastprof::IoError, session.start());
  CHECK(!session.running());
}
