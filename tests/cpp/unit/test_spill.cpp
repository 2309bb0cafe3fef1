// SPDX-License-Identifier: Apache-2.0
// The spill thread: when it runs a pass, and what a session counts that the file lost.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "process_changes.hpp"
#include "spill_checks.hpp"

using namespace recorder_checks;
using namespace spill_checks;
using namespace process_changes;

namespace {

void record(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    FASTPROF_RANGE("step");
  }
}

}  // namespace

TEST(the_thread_spills_of_its_own_accord_at_half_of_the_bound) {
  fp::State* s = fp::state();
  const auto pinned = [s] {
    fp::StateLock hold(s);
    return s->sessions[0].pinned_chunks;
  };
  const auto passes = [s] {
    fp::StateLock hold(s);
    return s->sessions[0].spill_pass;
  };
  const auto wait_until = [](auto&& holds) {
    for (int i = 0; i < 6000 && !holds(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return holds();
  };
  Running session(
      with(&Options::overflow, fp::OverflowPolicy::spill_to_file, &Options::max_bytes, 8 * 65536));
  CHECK(wait_until([&] { return passes() == 2; }));  // its first, which finds nothing
  while (pinned() < 3) record(10);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // it looks every 20 ms
  CHECK_EQ(passes(), 2);
  CHECK_EQ(pinned(), 3);
  while (pinned() < 4 && passes() == 2) record(10);
  CHECK(wait_until([&] { return pinned() == 1; }));
  session.stop();
  CHECK(session.spilled_bytes() > 2 * kSlots * 24);
  CHECK_EQ(session.spill_error(), 0);
  CHECK_EQ(session.dropped_events(), 0);
}

TEST(a_session_counts_what_its_file_lost) {
  fp::State* s = fp::state();
  fp::Session session(
      with(&Options::overflow, fp::OverflowPolicy::spill_to_file, &Options::max_bytes, 4 * 65536));
  const int fd = next_descriptor();
  session.start();
  record(10 * kSlots);
  for (int i = 0; i < 6000; ++i) {  // until the file has all closed chunks
    {
      fp::StateLock hold(s);
      if (s->sessions[0].pinned_chunks == 1) break;
    }
    fp::request_spill(s);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  struct stat facts;
  CHECK(::fstat(fd, &facts) == 0 && facts.st_nlink == 0);
  CHECK_EQ(::ftruncate(fd, 24000), 0);
  session.stop();
  CHECK_EQ(session.spilled_bytes(), static_cast<uint64_t>(facts.st_size));
  CHECK(session.capture().size() + session.dropped_events() >= 10 * kSlots);
  CHECK_EQ(session.dropped_events(fp::DropCause::spill_failed), session.spilled_bytes() / 24);
  CHECK_EQ(session.spill_error(), 0);  // no write failed
  CHECK(!is_open(fd));
}
