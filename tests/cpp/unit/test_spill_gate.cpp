// SPDX-License-Identifier: Apache-2.0
// The gate in front of a session that spills: who waits for room, who is let through, and when
// waiting is given up.
#include <atomic>
#include <thread>

#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;

namespace {

// A session in slot 3 that spills, with 4 chunks of its 4, in a State that allows 2 more.
struct Full {
  Full() : s(make_state()), slot(begin_session(s.get(), 3, 4, fp::OverflowPolicy::spill_to_file)) {
    slot.spill_state = fp::spill_state::active;
    slot.pinned_chunks = 4;
    s->default_max_bytes = 2 * fp::kChunkBytes;
  }

  // pass_spill_gate() of another thread. `answer`: runs under the lock each time the gate has asked
  // for a pass, with the number of times it has asked.
  template <class Answer>
  uint64_t pass(Answer answer) {
    std::atomic<bool> done{false};
    const uint32_t before = s->spill_requests;  // of earlier calls: not to be answered again
    std::thread spill([&] {
      int asked = 0;
      for (uint32_t seen = before; !done.load(); std::this_thread::yield()) {
        if (fp::load_acquire(&s->spill_requests) == seen) continue;
        fp::ScopedLock hold(s->lock);                 // the gate waits by now
        seen = fp::load_acquire(&s->spill_requests);  // it may have asked again meanwhile
        answer(++asked);
        fp::announce_spill(s.get());
      }
    });
    uint64_t lifted;
    {
      fp::ScopedLock hold(s->lock);
      lifted = fp::pass_spill_gate(s.get());
    }
    done.store(true);
    spill.join();
    return lifted;
  }
  // The same where nobody has to wait.
  uint64_t pass_at_once() {
    fp::ScopedLock hold(s->lock);
    return fp::pass_spill_gate(s.get());
  }

  std::unique_ptr<fp::State> s;
  fp::SessionSlot& slot;
};

}  // namespace

TEST(the_bound_may_be_exceeded_by_the_default_bound) {
  Full full;
  CHECK_EQ(fp::most_chunks_held(full.s.get(), full.slot), 6);
  full.s->default_max_bytes = 0;  // not known yet: 256 MB
  CHECK_EQ(fp::most_chunks_held(full.s.get(), full.slot), 4 + 4096);
}

TEST(below_half_of_the_bound_nothing_is_asked_for) {
  Full full;
  full.slot.pinned_chunks = 1;
  CHECK_EQ(full.pass_at_once(), 0);
  CHECK_EQ(full.s->spill_requests, 0);
  full.slot.pinned_chunks = 2;
  CHECK_EQ(full.pass_at_once(), 0);
  CHECK_EQ(full.s->spill_requests, 1);
  full.slot.pinned_chunks = 3;
  CHECK_EQ(full.pass_at_once(), 0);
  CHECK_EQ(full.s->spill_requests, 2);
  CHECK_EQ(full.s->spill_progress, 0);
}

TEST(only_sessions_that_spill_have_a_gate) {
  Full full;
  full.slot.spill_state = 0;
  CHECK_EQ(full.pass_at_once(), 0);
  full.slot.spill_state = fp::spill_state::ending;
  CHECK_EQ(full.pass_at_once(), 0);
  full.slot.spill_state = fp::spill_state::active;
  full.s->keep_bits = 0;
  CHECK_EQ(full.pass_at_once(), 0);
  full.s->keep_bits = full.s->session_bits;
  full.s->session_bits = 0;
  CHECK_EQ(full.pass_at_once(), 0);
  CHECK_EQ(full.s->spill_requests, 0);
}

TEST(every_session_is_asked) {
  Full full;
  full.slot.spill_state |= fp::spill_state::ending;
  begin_session(full.s.get(), 0);  // does not spill, is at its bound
  full.s->sessions[0].pinned_chunks = full.s->sessions[0].max_chunks;
  fp::SessionSlot& last = begin_session(full.s.get(), 63, 2, fp::OverflowPolicy::spill_to_file);
  last.spill_state = fp::spill_state::active | fp::spill_state::ending;
  last.pinned_chunks = 2;
  fp::SessionSlot& half = begin_session(full.s.get(), 5, 2, fp::OverflowPolicy::spill_to_file);
  half.spill_state = fp::spill_state::active;
  half.pinned_chunks = 1;
  fp::SessionSlot& empty = begin_session(full.s.get(), 62, 2, fp::OverflowPolicy::spill_to_file);
  empty.spill_state = fp::spill_state::active;
  CHECK_EQ(full.pass_at_once(), uint64_t{1} << 63 | 8);
  CHECK_EQ(full.s->spill_requests, 1);
}

TEST(a_session_that_ends_lets_threads_through) {
  Full full;
  full.slot.spill_state |= fp::spill_state::ending;
  CHECK_EQ(full.pass_at_once(), 8);
  CHECK_EQ(full.s->spill_requests, 0);
  full.slot.pinned_chunks = 5;
  CHECK_EQ(full.pass_at_once(), 8);
  full.slot.pinned_chunks = 6;  // as many as there may be in any case
  CHECK_EQ(full.pass_at_once(), 0);
}

TEST(nobody_waits_for_a_file_that_refuses_or_a_thread_that_stalls) {
  for (const uint8_t state : {fp::spill_state::failing, fp::spill_state::stalled}) {
    Full full;
    full.slot.spill_state |= state;
    CHECK_EQ(full.pass_at_once(), 0);
    full.slot.spill_state |= fp::spill_state::ending;
    CHECK_EQ(full.pass_at_once(), 0);
    CHECK_EQ(full.s->spill_requests, 0);
  }
}

TEST(room_that_is_made_ends_the_wait) {
  Full full;
  CHECK_EQ(full.pass([&](int) { full.slot.pinned_chunks = 3; }), 0);
  CHECK(full.s->spill_requests >= 1);
  CHECK(full.s->spill_progress >= 1);
  CHECK_EQ(full.slot.spill_state, fp::spill_state::active);
}

// A pass that had begun before may have missed the chunk that this thread has closed: only the next
// whole one shows that nothing can be moved.
TEST(a_whole_pass_without_room_lifts_the_bound) {
  for (const int first : {0, 1, 253, 254, 255}) {  // odd: a pass runs; the number is a byte
    Full full;
    full.slot.spill_pass = static_cast<uint8_t>(first);
    const int needed = first % 2 == 0 ? 2 : 3;
    int steps = 0;
    CHECK_EQ(full.pass([&](int) {
      ++full.slot.spill_pass;
      ++steps;
    }),
             8);
    CHECK_EQ(steps, needed);
  }
}

TEST(a_session_that_is_gone_is_not_waited_for) {
  Full full;
  CHECK_EQ(full.pass([&](int) { full.slot.spill_state = 0; }), 0);
  full.slot.spill_state = fp::spill_state::active;
  CHECK_EQ(full.pass([&](int) { full.slot.id = 99; }), 0);
  // Lifted, but ended while another session was waited for.
  Full two;
  fp::SessionSlot& other = begin_session(two.s.get(), 9, 4, fp::OverflowPolicy::spill_to_file);
  other.spill_state = fp::spill_state::active;
  other.pinned_chunks = 4;
  two.slot.spill_state |= fp::spill_state::ending;
  CHECK_EQ(two.pass([&](int) {
    fp::delist_session(two.s.get(), 3);
    other.spill_state |= fp::spill_state::ending;
  }),
           uint64_t{1} << 9);
}

TEST(a_write_that_fails_meanwhile_ends_the_wait) {
  Full full;
  CHECK_EQ(full.pass([&](int) { full.slot.spill_state |= fp::spill_state::failing; }), 0);
  full.slot.spill_state = fp::spill_state::active;
  CHECK_EQ(full.pass([&](int) { full.slot.pinned_chunks = 6; }), 0);
}

TEST(progress_keeps_a_thread_waiting) {
  Full full;
  int asked = 0;
  CHECK_EQ(full.pass([&](int number) {
    asked = number;
    if (number == 5) full.slot.pinned_chunks = 0;
  }),
           0);
  CHECK(asked >= 5);
  CHECK_EQ(full.slot.spill_state, fp::spill_state::active);
}

// Nobody answers: the thread gives up after a second, and those after it do not wait.
TEST(a_thread_gives_up_where_nothing_happens) {
  CHECK_EQ(fp::kSpillPatienceNs, 1000000000);
  Full full;
  const int64_t before = fp::platform::monotonic_ns();
  CHECK_EQ(full.pass_at_once(), 0);
  CHECK(fp::platform::monotonic_ns() - before >= 1000000000);
  CHECK_EQ(full.slot.spill_state, fp::spill_state::active | fp::spill_state::stalled);
  const uint32_t requests = full.s->spill_requests;
  CHECK(requests >= 2);  // it asked again while it waited
  CHECK_EQ(full.pass_at_once(), 0);
  CHECK_EQ(full.s->spill_requests, requests);
}
