// SPDX-License-Identifier: Apache-2.0
// recorded + dropped + in flight = produced, checked stamp by stamp: each thread keeps the begin
// stamp of every range it produced, and a session of [t0, t1) must have exactly those with t0 <=
// begin < t1.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "fastprof/session/drain.hpp"
#include "fastprof/session/session_control.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site site = site_of_range("exact");

// An interval of the recorder, read in ticks by the calls that fp::Session makes.
struct TickSession {
  int index = -1;
  uint64_t t0 = 0, t1 = 0, in_flight = 0, dropped = 0;
  std::vector<uint64_t> begins;

  void start(const fp::SessionRequest& request = {}) {
    index = fp::start_session(fp::state(), request);
  }
  void stop() {
    fp::State* s = fp::state();
    fp::ScopedLock drains(s->drain_lock);
    fp::Drain drain;
    fp::Snapshot snapshot;
    {
      fp::StateLock hold(s);
      fp::end_session(s, index);
      snapshot = fp::take_snapshot(s, index);
    }
    drain.read(s, snapshot);
    fp::release_session(s, index);
    t0 = snapshot.t0;
    t1 = snapshot.t1;
    in_flight = drain.rows().in_flight;
    dropped = drain.rows().refused;
    for (const uint64_t count : snapshot.dropped) dropped += count;
    for (const fp::TrackRows& track : drain.rows().tracks) {
      for (const auto begin : track.begin) begins.push_back(static_cast<uint64_t>(begin));
    }
    std::sort(begins.begin(), begins.end());
  }
};

// A thread that records until it is stopped, and keeps the stamps of its ranges.
struct Producer {
  std::vector<uint64_t> begins;  // of recorded ranges
  std::vector<std::pair<uint64_t, uint64_t>>
      refused;                      // stamps around each range that was not recorded
  std::atomic<size_t> produced{0};  // ranges, of either kind
  std::thread thread;

  void run(std::atomic<bool>& stop, size_t at_most) {
    thread = std::thread([this, &stop, at_most] {
      begins.reserve(at_most);
      refused.reserve(at_most);
      while (!stop.load(std::memory_order_relaxed) && begins.size() + refused.size() < at_most) {
        const uint64_t before = fp::ticks(fp::state());
        const fp::RangeHandle range = fp::begin_range(site);
        if (range)
          begins.push_back((range.begin >> 63) != 0
                               ? ~range.begin
                               : range.begin);  // inverted: its end takes the slow path
        else
          refused.emplace_back(before, fp::ticks(fp::state()));
        fp::end_range(range);
        produced.store(begins.size() + refused.size(), std::memory_order_relaxed);
      }
      produced.store(SIZE_MAX, std::memory_order_relaxed);
    });
  }
};

struct Produced {
  std::vector<uint64_t> begins;
  std::vector<std::pair<uint64_t, uint64_t>> refused;
};

Produced collect(std::vector<Producer>& producers) {
  Produced all;
  for (Producer& producer : producers) {
    producer.thread.join();
    all.begins.insert(all.begins.end(), producer.begins.begin(), producer.begins.end());
    all.refused.insert(all.refused.end(), producer.refused.begin(), producer.refused.end());
  }
  std::sort(all.begins.begin(), all.begins.end());
  return all;
}

// What a session must say about what was produced; returns how many records it has, for a round in
// which nothing was produced in time shows nothing. dropping: some of it may be counted instead of
// recorded.
size_t check_exact(const TickSession& session, const Produced& produced, bool dropping) {
  const auto first = std::lower_bound(produced.begins.begin(), produced.begins.end(), session.t0);
  const auto last = std::lower_bound(produced.begins.begin(), produced.begins.end(), session.t1);
  const auto inside = static_cast<uint64_t>(last - first);
  // Nothing that was not produced, and nothing twice (two threads may well share a stamp:
  // multisets).
  CHECK(std::includes(first, last, session.begins.begin(), session.begins.end()));
  if (!dropping) {
    CHECK_EQ(session.dropped, 0);
    // A slot in flight may turn out to have begun after t1, so it may make up for one that is
    // missing or for none.
    CHECK(session.begins.size() <= inside);
    CHECK(session.begins.size() + session.in_flight >= inside);
    return session.begins.size();
  }
  uint64_t surely = 0, perhaps = 0;
  for (const auto& [before, after] : produced.refused) {
    if (after >= session.t0 && before < session.t1) ++perhaps;
    if (before >= session.t0 && after < session.t1) ++surely;
  }
  const uint64_t accounted = session.begins.size() + session.dropped;
  CHECK(accounted + session.in_flight >= inside + surely);
  CHECK(accounted <= inside + perhaps);
  return session.begins.size();
}

// Three producers beside the sessions of one round.
struct Race {
  explicit Race(long number) : round(number) {}
  void produce(size_t at_most) {
    for (Producer& producer : producers) producer.run(over, at_most);
  }
  void spin(long times) const {
    for (long i = 0; i < times; ++i) fp::raw_ticks();
  }
  // Until each producer has produced some more, or is done: on a busy machine, they may not run at
  // all between a start and a stop otherwise.
  void wait() const {
    for (const Producer& producer : producers) {
      const size_t before = producer.produced.load(std::memory_order_relaxed);
      if (before == SIZE_MAX) continue;
      const size_t enough = before + static_cast<size_t>(round % 3) * 20;
      while (producer.produced.load(std::memory_order_relaxed) < enough) ::sched_yield();
    }
  }
  // Ends the producers; returns how many records the sessions have. dropping: see check_exact().
  size_t check(std::initializer_list<const TickSession*> exact,
               std::initializer_list<const TickSession*> dropping = {}) {
    over.store(true);
    const Produced produced = collect(producers);
    size_t recorded = 0;
    for (const TickSession* session : exact) recorded += check_exact(*session, produced, false);
    for (const TickSession* session : dropping) recorded += check_exact(*session, produced, true);
    return recorded;
  }

  const long round;
  std::atomic<bool> over{false};
  std::vector<Producer> producers{3};
};

fp::SessionRequest bounded(uint64_t chunks,
                           fp::OverflowPolicy policy = fp::OverflowPolicy::drop_newest) {
  fp::SessionRequest request;
  request.max_bytes = chunks * fp::kChunkBytes;
  request.policy = policy;
  return request;
}

// Rounds of one session with a bound, which a racing stop ends.
void check_bounded(uint64_t least_chunks, fp::OverflowPolicy policy) {
  size_t recorded = 0;
  for (long round = 0; round < scaled(30); ++round) {
    Race race(round);
    TickSession session;
    session.start(bounded(least_chunks + static_cast<uint64_t>(round % 5), policy));
    race.produce(60000);
    race.spin(40000 * (round % 5));
    race.wait();
    session.stop();
    recorded += race.check({}, {&session});
  }
  CHECK(recorded != 0);
}

}  // namespace

TEST(racing_stops_lose_nothing) {
  size_t recorded = 0;
  for (long round = 0; round < scaled(60); ++round) {
    Race race(round);
    race.produce(100000);
    TickSession session;
    session.start();
    race.spin(2000 * (round % 7));
    race.wait();
    session.stop();
    recorded += race.check({&session});
  }
  CHECK(recorded != 0);
}

TEST(sessions_that_start_and_stop_within_each_other_lose_nothing) {
  size_t recorded = 0;
  for (long round = 0; round < scaled(25); ++round) {
    Race race(round);
    TickSession outer, a, b;
    outer.start();
    race.produce(100000);
    a.start();
    race.spin(1000 * (round % 5));
    b.start();
    race.wait();
    a.stop();
    race.spin(1000 * (round % 3));
    b.stop();
    outer.stop();
    recorded += race.check({&outer, &a, &b});
  }
  CHECK(recorded != 0);
}

TEST(the_bound_and_a_racing_stop_account_for_everything) {
  check_bounded(2, fp::OverflowPolicy::drop_newest);
}

TEST(overwriting_and_a_racing_stop_account_for_everything) {
  check_bounded(4, fp::OverflowPolicy::overwrite_oldest);
}

TEST(different_bounds_and_policies_at_once) {
  size_t recorded = 0;
  for (long round = 0; round < scaled(20); ++round) {
    Race race(round);
    TickSession small, large, ring;
    small.start(bounded(2));
    race.produce(60000);
    ring.start(bounded(8, fp::OverflowPolicy::overwrite_oldest));
    large.start(bounded(400));
    race.spin(40000 * (round % 5));
    race.wait();
    small.stop();
    ring.stop();
    large.stop();
    recorded += race.check({&large}, {&small, &ring});
  }
  CHECK(recorded != 0);
}
