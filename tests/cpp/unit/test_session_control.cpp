// SPDX-License-Identifier: Apache-2.0
// Session control: what a start writes into its slot, bounds of names, which chunks sessions pin
// and release, snapshots, and tracks of threads that are gone.
#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fastprof/session/session_control.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

void record(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    FASTPROF_RANGE("step");
  }
}

// A session that is read and ended by hand.
class Started {
 public:
  explicit Started(const fp::SessionRequest& request = {})
      : index_(fp::start_session(fp::state(), request)) {}
  ~Started() {
    fp::State* s = fp::state();
    end();
    fp::ScopedLock drains(s->drain_lock);
    fp::release_session(s, index_);
    CHECK_EQ(slot().id, 0);
    CHECK(slot().live == 0 && slot().spill_state == 0 && slot().pinned_chunks == 0);
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  void end() {
    fp::StateLock hold(fp::state());
    if (slot().t1 == UINT64_MAX) fp::end_session(fp::state(), index_);
  }
  fp::Snapshot snapshot() {
    fp::StateLock hold(fp::state());
    return fp::take_snapshot(fp::state(), index_);
  }
  fp::SessionSlot& slot() const { return fp::state()->sessions[index_]; }
  uint64_t bit() const { return uint64_t{1} << index_; }
  int index() const { return index_; }

 private:
  int index_;
};

fp::SessionRequest request_of(fp::OverflowPolicy policy, uint64_t max_bytes = 16 << 20) {
  fp::SessionRequest request;
  request.policy = policy;
  request.max_bytes = max_bytes;
  return request;
}

// Pins and counts of all chunks agree with the numbers that are kept of them.
void check_counts() {
  fp::State* s = fp::state();
  fp::StateLock hold(s);
  uint64_t pinned[fp::kMaxSessions] = {};
  for (const fp::Track* track = s->tracks; track != nullptr; track = track->next) {
    uint32_t unpinned = 0;
    for (const fp::Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
      unpinned += chunk->pins == 0 && chunk->place == fp::ChunkPlace::full ? 1 : 0;
      for (unsigned i = 0; i < fp::kMaxSessions; ++i) pinned[i] += chunk->pins >> i & 1;
    }
    CHECK_EQ(track->unpinned, unpinned);
  }
  for (unsigned i = 0; i < fp::kMaxSessions; ++i) CHECK_EQ(s->sessions[i].pinned_chunks, pinned[i]);
}

// The chunks of this thread, oldest first.
std::vector<fp::Chunk*> own_chunks() {
  fp::StateLock hold(fp::state());
  std::vector<fp::Chunk*> all;
  for (fp::Chunk* chunk = fp::current_track()->oldest; chunk != nullptr; chunk = chunk->next)
    all.push_back(chunk);
  return all;
}

size_t chunks_in(const fp::Snapshot& snapshot, bool refused = false) {
  size_t count = 0;
  for (const fp::TrackSnapshot& track : snapshot.tracks)
    for (const fp::PinnedRun& run : track.runs) count += run.refused == refused ? 1 : 0;
  return count;
}

}  // namespace

TEST(requests_and_options_have_these_defaults) {
  const fp::SessionRequest request;
  CHECK_EQ(request.mask, 0xFFFFFF);
  CHECK(!request.local && !request.include_open && !request.follow_fork && !request.inputs);
  CHECK(request.policy == fp::OverflowPolicy::drop_newest);
  CHECK(request.max_bytes == 0 && request.max_name_bytes == 0);
  const fp::SessionOptions options;
  CHECK_EQ(options.categories, 0xFFFFFF);
  CHECK(!options.thread_local_only && !options.include_open && !options.cpp_stacks);
  CHECK(!options.joined_stacks && !options.follow_fork && !options.record_shapes);
  CHECK(!options.keep_backing_file && options.max_bytes == 0 && options.max_name_bytes == 0);
  CHECK(options.overflow == fp::OverflowPolicy::drop_newest);
  CHECK_EQ(options.max_frames, 32);
  const fp::Snapshot snapshot;
  CHECK(snapshot.t0 == 0 && snapshot.t1 == 0 && snapshot.tasks_since == 0);
  CHECK(snapshot.session_id == 0 && snapshot.mask == 0 && snapshot.unix_offset_ns == 0);
  CHECK(!snapshot.local && snapshot.keeps && snapshot.exact);
  const fp::PinnedRun run{nullptr, nullptr, true};
  CHECK(!run.refused);
  const fp::BackingReport report;
  CHECK(!report.opened && report.fallback_slabs == 0 && report.names_lost == 0);
  CHECK_EQ(report.threads_outside, 0);
  const fp::Session session;
  CHECK(!session.running() && session.spill_error() == 0 && session.spilled_bytes() == 0);
}

TEST(a_start_describes_the_session_in_its_slot) {
  fp::State* s = fp::state();
  fp::SessionRequest request = request_of(fp::OverflowPolicy::spill_to_file, 5 * 65536 + 65535);
  request.mask = fp::category::op;
  const uint64_t before = fp::ticks(s);
  {
    const Started first(request);
    const fp::SessionSlot& slot = first.slot();
    CHECK(slot.mask == fp::category::op && slot.local == 0 && slot.live == 1);
    CHECK(slot.policy == fp::OverflowPolicy::spill_to_file && slot.spill_state == 1);
    CHECK(slot.spill_pass == 0 && slot.max_chunks == 5 && slot.pid == s->pid);
    CHECK(slot.wants_detail == 0 && slot.wants_inputs == 0 && slot.follows_fork == 0);
    CHECK(slot.t0 > before && slot.t1 == UINT64_MAX && slot.tasks_since == slot.t0);
    CHECK_EQ(slot.id, s->next_session_id);
    CHECK(slot.dropped_in_file == nullptr);
    request = request_of(fp::OverflowPolicy::drop_newest, 65536);
    request.local = request.follow_fork = request.inputs = true;
    fp::DetailOptions detail{};
    detail.cpp_stack = true;
    detail.max_frames = 8;
    request.detail = &detail;
    const Started second(request);
    CHECK_EQ(second.slot().id, slot.id + 1);
    CHECK(second.index() != first.index());
    CHECK(second.slot().local == 1 && second.slot().follows_fork == 1);
    CHECK(second.slot().wants_detail == 1 && second.slot().wants_inputs == 1);
    CHECK(second.slot().spill_state == 0 && second.slot().max_chunks == 1);
    // Other details are refused while this one runs; the same ones are not.
    const Started third(request);
    detail.max_frames = 9;
    std::string message;
    try {
      fp::start_session(s, request);
    } catch (const fp::StateError& error) {
      message = error.what();
    }
    CHECK(message.find("other counters") == std::string::npos &&
          message.find("different counters or stacks") != std::string::npos);
  }
  // A slot that was used before begins anew.
  const Started again(request_of(fp::OverflowPolicy::drop_newest));
  for (const uint64_t count : again.slot().dropped) CHECK_EQ(count, 0);
  for (const uint64_t word : again.slot().reserved) CHECK_EQ(word, 0);
  CHECK(again.slot().spill_state == 0 && again.slot().follows_fork == 0);
  CHECK(again.slot().wants_detail == 0 && again.slot().wants_inputs == 0);
}

TEST(bounds_below_one_chunk_are_refused) {
  fp::State* s = fp::state();
  fp::SessionRequest request;
  request.max_bytes = 65535;
  CHECK_THROWS(fp::ValueError, fp::start_session(s, request));
  request.max_bytes = 65536;
  request.max_name_bytes = 65535;
  CHECK_THROWS(fp::ValueError, fp::start_session(s, request));
  request.max_name_bytes = 65536;
  const Started session(request);
  CHECK_EQ(session.slot().max_chunks, 1);
  CHECK_EQ(s->session_bits, session.bit());
}

TEST(the_largest_bound_of_names_counts) {
  fp::State* s = fp::state();
  const auto names = [](uint64_t bytes) {
    fp::SessionRequest request;
    request.max_name_bytes = bytes;
    return request;
  };
  const auto check = [s](uint64_t bytes, uint64_t length) {
    CHECK_EQ(s->max_name_bytes, bytes);
    CHECK_EQ(s->max_name_length, length);
  };
  {
    const Started first(names(65536));
    check(65536, 256);
    const Started second(names(400 * 1024));
    check(400 * 1024, 400);
    const Started third(names(300 * 1024));
    check(400 * 1024, 400);
    const Started fourth(names(128 << 20));
    check(128 << 20, 65536);
  }
  {
    const Started alone(names(256 * 1024));  // a new bound, also a smaller one
    check(256 * 1024, 256);
  }
  {
    const Started alone(names(257 * 1024));
    check(257 * 1024, 257);
  }
  {
    const Started alone(names(65535 * 1024));
    check(65535 * 1024, 65535);
  }
  const Started alone(names(0));
  check(64 << 20, 65536);
}

TEST(a_report_says_what_its_file_lacks) {
  static fp::State s;
  static fp::BackingFile file{};
  fp::BackingReport report;
  report.opened = true;
  const auto finish = [&report](const fp::State& of) {
    report.problem.clear();
    fp::finish_report(&of, report);
    return report.problem;
  };
  CHECK_EQ(finish(s), "");  // there is no file
  s.backing_file = &file;
  file.threads_outside = 3;
  CHECK_EQ(finish(s), "");
  CHECK_EQ(report.threads_outside, 3);
  file.names_lost = 4;
  CHECK(finish(s).find("no room for 4 names") != std::string::npos);
  CHECK_EQ(report.names_lost, 4);
  file.fallback_slabs = 5;
  file.fallback_error = ENOSPC;
  CHECK(finish(s).find("5 slabs") != std::string::npos);
  CHECK(finish(s).find(std::strerror(ENOSPC)) != std::string::npos);
  CHECK_EQ(report.fallback_slabs, 5);
  report.opened = false;
  CHECK_EQ(finish(s), "");
}

TEST(tasks_are_known_since_the_oldest_session_that_records_them) {
  static fp::State s;
  fp::SessionSlot& starting = s.sessions[3];
  starting.t0 = 100;
  CHECK_EQ(fp::tasks_recorded_since(&s, starting), 100);
  const auto other = [](unsigned index, uint64_t since, uint32_t mask = fp::category::all,
                        uint8_t local = 0) {
    s.session_bits |= uint64_t{1} << index;
    s.sessions[index].tasks_since = since;
    s.sessions[index].mask = mask;
    s.sessions[index].local = local;
  };
  starting.mask = fp::category::all;
  starting.tasks_since = 5;  // of an earlier use of the slot
  s.session_bits = 8;
  CHECK_EQ(fp::tasks_recorded_since(&s, starting), 100);
  other(0, 10, fp::category::user);
  other(1, 10, fp::category::all, 1);
  other(2, 0);
  CHECK_EQ(fp::tasks_recorded_since(&s, starting), 100);
  other(63, 60);
  CHECK_EQ(fp::tasks_recorded_since(&s, starting), 60);
  other(7, 70, fp::category::task);
  CHECK_EQ(fp::tasks_recorded_since(&s, starting), 60);
  other(8, 50, fp::category::task);
  CHECK_EQ(fp::tasks_recorded_since(&s, starting), 50);
}

TEST(sessions_pin_the_current_chunk_and_what_follows) {
  const Started keeping(request_of(fp::OverflowPolicy::drop_newest));
  record(3 * 2725);
  const size_t chunks = own_chunks().size();
  {
    const Started late(request_of(fp::OverflowPolicy::drop_newest));
    const Started overwriting(request_of(fp::OverflowPolicy::overwrite_oldest));
    CHECK_EQ(late.slot().pinned_chunks, 1);
    CHECK_EQ(overwriting.slot().pinned_chunks, 0);
    fp::SessionRequest request = request_of(fp::OverflowPolicy::drop_newest);
    request.include_open = true;
    {
      const Started none_open(request);
      CHECK_EQ(none_open.slot().pinned_chunks, 1);
    }
    check_counts();
    record(2725);
    CHECK_EQ(late.slot().pinned_chunks, 2);
    CHECK_EQ(overwriting.slot().pinned_chunks, 0);
    CHECK_EQ(keeping.slot().pinned_chunks, own_chunks().size());
    check_counts();
  }
  CHECK(own_chunks().size() > chunks);
  check_counts();
}

TEST(a_session_that_lists_open_ranges_pins_their_chunks) {
  const Started keeping(request_of(fp::OverflowPolicy::drop_newest));
  {
    FASTPROF_RANGE("open");
    record(3 * 2725);
    fp::SessionRequest request = request_of(fp::OverflowPolicy::drop_newest);
    request.include_open = true;
    const Started listing(request);
    CHECK_EQ(listing.slot().pinned_chunks, 2);
    request.policy = fp::OverflowPolicy::overwrite_oldest;
    const Started overwriting(request);
    CHECK_EQ(overwriting.slot().pinned_chunks, 0);
    check_counts();
  }
  check_counts();
}

TEST(a_snapshot_has_what_its_session_pins) {
  fp::State* s = fp::state();
  const Started other(request_of(fp::OverflowPolicy::drop_newest));
  record(2 * 2725);
  Started session(request_of(fp::OverflowPolicy::drop_newest));
  Started overwriting(request_of(fp::OverflowPolicy::overwrite_oldest));
  record(2 * 2725);
  const fp::Snapshot snapshot = session.snapshot();
  CHECK_EQ(snapshot.session_id, session.slot().id);
  CHECK(snapshot.t0 == session.slot().t0 && snapshot.tasks_since == other.slot().t0);
  CHECK(snapshot.t1 > snapshot.t0 && snapshot.t1 <= fp::ticks(s));
  CHECK(snapshot.mask == fp::category::all && !snapshot.local && snapshot.keeps);
  CHECK_EQ(snapshot.unix_offset_ns, s->unix_offset_ns);
  CHECK_EQ(chunks_in(snapshot), 3);
  CHECK_EQ(fp::count_runs(snapshot), 3);
  for (const fp::TrackSnapshot& track : snapshot.tracks)
    for (size_t i = 0; i < track.runs.size(); ++i) {
      const fp::PinnedRun& run = track.runs[i];
      CHECK_EQ(run.closed, i + 1 < track.runs.size());
      if (run.closed) CHECK(run.end == fp::closed_end(run.chunk));
      CHECK((run.chunk->pins & session.bit()) != 0);
      if (i > 0) CHECK(run.chunk->sequence == track.runs[i - 1].chunk->sequence + 1);
    }
  // An overwriting session pins when it is read, from the chunk on that was current at its start.
  const fp::Snapshot newest = overwriting.snapshot();
  CHECK(!newest.keeps);
  CHECK_EQ(chunks_in(newest), 3);
  CHECK_EQ(overwriting.slot().pinned_chunks, 3);
  check_counts();
  std::vector<fp::Chunk*> consumed;
  {
    fp::StateLock hold(s);
    consumed.push_back(newest.tracks.back().runs[0].chunk);
    fp::release_read(s, overwriting.index(), newest, consumed);
  }
  CHECK_EQ(overwriting.slot().pinned_chunks, 0);
  CHECK_EQ(chunks_in(overwriting.snapshot()), 2);  // what was read is not read again
  {
    fp::StateLock hold(s);
    fp::release_read(s, session.index(), snapshot, {snapshot.tracks.back().runs[0].chunk});
    fp::unpin_chunk(s, session.index(), snapshot.tracks.back().runs[0].chunk);  // no effect
  }
  CHECK_EQ(session.slot().pinned_chunks, 2);
  CHECK_EQ(chunks_in(session.snapshot()), 2);
  check_counts();
  session.end();
  CHECK_EQ(session.snapshot().t1, session.slot().t1);
}

TEST(chunks_without_room_are_counted_by_the_last_snapshot) {
  const Started other(request_of(fp::OverflowPolicy::drop_newest));
  Started session(request_of(fp::OverflowPolicy::drop_newest, 65536));
  record(3 * 2725);
  CHECK_EQ(session.slot().pinned_chunks, 1);
  fp::Snapshot snapshot = session.snapshot();
  CHECK(chunks_in(snapshot) == 1 && chunks_in(snapshot, true) == 0);
  session.end();
  snapshot = session.snapshot();
  CHECK_EQ(chunks_in(snapshot), 1);
  CHECK_EQ(chunks_in(snapshot, true), 1);  // the current one: the others were counted at their end
  CHECK(snapshot.dropped[static_cast<size_t>(fp::DropCause::bound)] > 2725);
  check_counts();
}

TEST(a_snapshot_has_the_clock_around_its_session) {
  CHECK_EQ(in_child([] {
             fp::State* s = fp::state();
             Started session;
             const auto first_with_start_at = [&](uint64_t t0) {
               fp::StateLock hold(s);
               s->knots->count = 6;
               for (uint64_t i = 0; i < 6; ++i)
                 s->knots->knots[i] = {10 * (i + 1), static_cast<int64_t>(i) * 2000000, 0, 0};
               session.slot().t0 = t0;
               return fp::take_snapshot(s, session.index()).knots.front().ticks;
             };
             // Two knots at or before the start, if there are.
             const uint64_t expected[][2] = {{5, 10},  {10, 10}, {19, 10}, {20, 10},
                                             {29, 10}, {30, 20}, {39, 20}, {60, 50}};
             int result = 0;
             for (const auto& [t0, first] : expected)
               if (first_with_start_at(t0) != first) result = 1;
             return result;
           }),
           0);
}

TEST(a_track_without_records_is_there_while_its_thread_lives) {
  Started session;
  bool found = false;
  uint32_t id = 0;
  std::thread([&] {
    id = fp::current_track()->id;
    for (const fp::TrackSnapshot& track : session.snapshot().tracks) {
      if (track.info.id != id) continue;
      found = true;
      CHECK(track.info.alive && track.info.pid == ::getpid());
      CHECK(track.info.tid == static_cast<int64_t>(fp::platform::thread_id()));
    }
  }).join();
  CHECK(found);
  for (const fp::TrackSnapshot& track : session.snapshot().tracks)
    CHECK(track.info.id != id || !track.runs.empty());
}

namespace {

// Runs behind the recorder's own destructor, which has a key that was made earlier.
void record_at_exit(void* thread_id) {
  record(1);
  *static_cast<uint32_t*>(thread_id) = fp::platform::thread_id();
}

}  // namespace

TEST(a_track_that_was_made_as_its_thread_ended_is_freed) {
  fp::State* s = fp::state();
  record(1);
  pthread_key_t key;
  CHECK_EQ(pthread_key_create(&key, record_at_exit), 0);
  static uint32_t tid = 0;
  const auto tracks_of_thread = [s] {
    fp::StateLock hold(s);
    size_t count = 0;
    for (const fp::Track* track = s->tracks; track != nullptr; track = track->next)
      count += track->tid == tid ? 1 : 0;
    return count;
  };
  {
    fp::Session session;
    session.start();
    std::thread([key] {
      record(1);
      pthread_setspecific(key, &tid);
    }).join();
    CHECK(tid != 0);
    CHECK(tracks_of_thread() > 0);
    CHECK_EQ(count_named(session.stop(), "step"), 2);
  }
  // The kernel may know the thread a moment longer than its join.
  for (int i = 0; i < 3000 && tracks_of_thread() != 0; ++i) {
    {
      fp::StateLock hold(s);
      fp::sweep(s);
    }
    std::this_thread::yield();
  }
  CHECK_EQ(tracks_of_thread(), 0);
  pthread_key_delete(key);
}
