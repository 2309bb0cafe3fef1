// SPDX-License-Identifier: Apache-2.0
// Passes of a spilling session: which chunks they move, failed writes, and when the spill thread
// runs one. Most tests run the passes themselves, without that thread.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "process_changes.hpp"
#include "spill_checks.hpp"

using namespace recorder_checks;
using namespace spill_checks;
using namespace process_changes;

namespace {

// A session that spills without a thread: spill_now() is called by the test.
class Spilling {
 public:
  explicit Spilling(uint64_t max_bytes = 64 << 20) {
    fp::SessionRequest request;
    request.policy = fp::OverflowPolicy::spill_to_file;
    request.max_bytes = max_bytes;
    index_ = fp::start_session(fp::state(), request);
  }
  ~Spilling() {
    fp::State* s = fp::state();
    if (running()) end();
    fp::ScopedLock drains(s->drain_lock);
    fp::release_session(s, index_);
  }
  Spilling(const Spilling&) = delete;
  Spilling& operator=(const Spilling&) = delete;

  void end() {
    fp::StateLock hold(fp::state());
    fp::end_session(fp::state(), index_);
  }
  size_t spill(fp::SpillFile& file) { return fp::spill_now(fp::state(), index_, file); }
  size_t closed() const {
    fp::StateLock hold(fp::state());
    return fp::count_runs(fp::take_closed(fp::state(), index_));
  }
  uint64_t pinned() const { return fp::state()->sessions[index_].pinned_chunks; }
  fp::SessionSlot& slot() const { return fp::state()->sessions[index_]; }
  bool running() const { return (fp::state()->session_bits >> index_ & 1) != 0; }
  int index() const { return index_; }

 private:
  int index_;
};

void record(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    FASTPROF_RANGE("step");
  }
}

// Records until so many chunks that only hold finished ranges have been closed.
void record_chunks(const Spilling& session, size_t chunks) {
  const size_t before = session.closed();
  while (session.closed() < before + chunks) record(100);
}

}  // namespace

TEST(a_pass_stops_at_the_first_failed_write) {
  Spilling session;
  fp::SpillFile file("");
  record_chunks(session, 4);
  {
    const FileLimit limit(kSlots * 24 + 1000);
    CHECK_EQ(session.spill(file), 1);
  }
  CHECK(session.slot().spill_state == (fp::spill_state::active | fp::spill_state::failing));
  CHECK_EQ(session.slot().spill_pass, 2);
  CHECK_EQ(session.closed(), 3);
  CHECK_EQ(session.spill(file), 3);
  CHECK(session.slot().spill_state == fp::spill_state::active);
  CHECK_EQ(file.error(), EFBIG);
}

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
  fp::SessionOptions options;
  options.overflow = fp::OverflowPolicy::spill_to_file;
  options.max_bytes = 8 * 65536;
  fp::Session session(options);
  session.start();
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
  fp::SessionOptions options;
  options.overflow = fp::OverflowPolicy::spill_to_file;
  options.max_bytes = 4 * 65536;
  fp::Session session(options);
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
