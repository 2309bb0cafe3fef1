// SPDX-License-Identifier: Apache-2.0
// Refills: which chunk a thread gets next, what is counted as dropped for it, and what the chunk
// begins with.
#include <vector>

#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;
using private_state::dropped;

namespace {}  // namespace

TEST(a_chunk_is_taken_within_bounds_and_pinned) {
  const auto s = make_state(0);
  fp::Track* track = fp::new_track(s.get());
  CHECK(fp::acquire_chunk(s.get(), track, false, 0) == nullptr);  // no session
  fp::SessionSlot& small = begin_session(s.get(), 0, 1);
  fp::SessionSlot& large = begin_session(s.get(), 1, 2);
  CHECK_EQ(fp::sessions_with_room(s.get()), 3);
  fp::Chunk* first = fp::acquire_chunk(s.get(), track, false, 0);
  CHECK_EQ(first->pins, 3);
  CHECK_EQ(small.pinned_chunks, 1);
  CHECK_EQ(fp::sessions_with_room(s.get()), 2);
  fp::Chunk* second = fp::acquire_chunk(s.get(), track, false, 0);
  CHECK_EQ(second->pins, 2);
  CHECK_EQ(large.pinned_chunks, 2);
  CHECK_EQ(fp::sessions_with_room(s.get()), 0);
  CHECK(fp::acquire_chunk(s.get(), track, false, 0) == nullptr);
  fp::acquire_chunk(s.get(), track, false, 1);
  fp::Chunk* fourth = fp::acquire_chunk(s.get(), track, false, 1);  // the sum of bounds is 3
  CHECK(fourth != nullptr);
  CHECK_EQ(fourth->pins, 1);
  CHECK_EQ(small.pinned_chunks, 3);
}

TEST(a_thread_reuses_its_own_idle_chunk_first) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* pinned = full_chunk(s.get(), track);
  pinned->pins = 1;
  fp::Chunk* idle = full_chunk(s.get(), track, 4);
  leave_open(idle);  // only this thread could end it
  full_chunk(s.get(), track);
  CHECK_EQ(track->unpinned, 3);
  fp::SessionSlot& slot = begin_session(s.get(), 0);
  CHECK(fp::own_idle_chunk(s.get(), track) == idle);
  CHECK(fp::acquire_chunk(s.get(), track, false, 0) == idle);
  CHECK_EQ(dropped(slot, fp::DropCause::bound), 5);
  CHECK_EQ(track->unpinned, 2);
  CHECK(track->oldest->next == track->newest);
  track->unpinned = 0;  // says that there is none
  CHECK(fp::own_idle_chunk(s.get(), track) == nullptr);
}

TEST(the_oldest_chunk_of_all_threads_is_overwritten) {
  const auto s = make_state(0);
  fp::SessionSlot& slot =
      begin_session(s.get(), 0, 6, fp::OverflowPolicy::overwrite_oldest, fp::category::all);
  fp::Track* track = fp::new_track(s.get());
  fp::Track* other = fp::new_track(s.get());
  const auto closed = [&](fp::Track* of, uint64_t close_ticks) {
    fp::Chunk* chunk = full_chunk(s.get(), of, 3);
    chunk->close_ticks = close_ticks;
    return chunk;
  };
  closed(track, 300)->pins = 1;
  fp::Chunk* own = closed(track, 500);
  closed(track, 700);
  fp::Chunk* open = closed(other, 400);
  leave_open(open);
  fp::Chunk* others = closed(other, 450);
  closed(other, 600);
  CHECK(fp::oldest_idle_chunk(s.get(), other) == open);  // its own
  CHECK(fp::oldest_idle_chunk(s.get(), track) == others);
  others->close_ticks = 500;  // equally old: that of the track listed first
  CHECK(fp::oldest_idle_chunk(s.get(), track) == others);
  others->close_ticks = 501;
  CHECK(fp::oldest_idle_chunk(s.get(), track) == own);
  other->alive = 0;
  CHECK(fp::oldest_idle_chunk(s.get(), track) == open);
  other->unpinned = 0;  // says that there is none
  CHECK(fp::oldest_idle_chunk(s.get(), track) == own);

  CHECK_EQ(s->chunk_count, 6);
  CHECK(fp::acquire_chunk(s.get(), track, false, 0) == own);
  CHECK_EQ(own->pins, 0);
  CHECK_EQ(dropped(slot, fp::DropCause::overwritten), 3);
  CHECK_EQ(dropped(slot, fp::DropCause::bound), 0);
  // Room that is left is used first.
  s->max_chunks = 7;
  fp::Chunk* fresh = fp::acquire_chunk(s.get(), track, false, 0);
  CHECK(fresh != nullptr && fresh->gen == 0);
}

TEST(a_dead_track_goes_with_its_last_chunk) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Track* dead = fp::new_track(s.get());
  full_chunk(s.get(), dead);
  full_chunk(s.get(), dead);
  full_chunk(s.get(), track);
  dead->alive = 0;
  fp::recycle(s.get(), dead->oldest);
  CHECK_EQ(length(s->tracks), 2);
  fp::recycle(s.get(), dead->oldest);
  CHECK_EQ(length(s->tracks), 1);
  CHECK(s->free_tracks == dead);
  fp::recycle(s.get(), track->oldest);  // alive
  CHECK_EQ(length(s->tracks), 1);
}

TEST(a_refill_gives_the_thread_a_chunk_and_room) {
  const auto s = make_state(0);
  fp::ThreadBlock block{};
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) == nullptr);  // no session
  CHECK(block.track != nullptr);
  fp::SessionSlot& slot = begin_session(s.get(), 0, 2);
  fp::Slot* first = fp::leader_reserve_slow(s.get(), &block, 2, 1);
  fp::Chunk* chunk = block.track->newest;
  CHECK(first == fp::chunk_slots(chunk));
  CHECK_EQ(block.cursor, address(first + 2));
  CHECK_EQ(block.limit, address(fp::chunk_end(chunk)));
  CHECK_EQ(block.flags, 0);
  CHECK_EQ(first[0].begin, 0);
  CHECK_EQ(first[2].begin, 0);
  put(first, chunk->open_ticks, chunk->open_ticks);
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) != nullptr);
  CHECK_EQ(chunk->used_bytes, 48);
  CHECK(chunk->place == fp::ChunkPlace::full);
  // At its bound.
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) == nullptr);
  CHECK_EQ(dropped(slot, fp::DropCause::bound), 1);
  CHECK_EQ(block.cursor, 0);
  CHECK_EQ(block.limit, 0);
  block.flags = fp::thread_flag::busy;
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) == nullptr);
  CHECK_EQ(dropped(slot, fp::DropCause::reentrant), 1);
  CHECK_EQ(block.flags, fp::thread_flag::busy);
  block.flags = 0;
  // A record fits if a chunk has room for it behind what every chunk may begin with: a membership
  // in each of 64 sessions and the task.
  slot.max_chunks = s->max_chunks = 10;
  CHECK(fp::leader_reserve_slow(s.get(), &block, 2725 - 65, 1) != nullptr);
  CHECK(fp::leader_reserve_slow(s.get(), &block, 2725 - 64, 1) == nullptr);
  CHECK_EQ(dropped(slot, fp::DropCause::bound), 2);
  s->thread_block = [] { return static_cast<fp::ThreadBlock*>(nullptr); };
  fp::ThreadBlock replaced{};
  CHECK(fp::leader_reserve_slow(s.get(), &replaced, 1, 1) == nullptr);
  CHECK_EQ(dropped(slot, fp::DropCause::thread_exit), 1);
}

TEST(a_refill_adds_the_knot_that_is_due_and_wakes_the_prefault_thread) {
  const auto s = make_state(0);
  begin_session(s.get(), 0, 1000);
  s->usable_cpus = 2;
  s->prefault_running = 1;  // none is started
  fp::ThreadBlock block{};
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) != nullptr);
  CHECK(s->knots == nullptr);  // no session has made the first one
  CHECK_EQ(s->prefault_signal, 0);
  fp::add_knot(s.get(), 1);
  s->pending_knot_ticks = UINT64_MAX;
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) != nullptr);
  CHECK_EQ(s->knots->count, 1);
  CHECK_EQ(s->prefault_signal, 1);  // this thread has filled a chunk
  s->pending_knot_ticks = 0;
  s->ready_count = 2;  // enough is ready
  CHECK(fp::leader_reserve_slow(s.get(), &block, 2725, 1) == nullptr);
  CHECK_EQ(s->knots->count, 2);
  CHECK_EQ(s->prefault_signal, 1);
  s->ready_count = 0;
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) != nullptr);  // had no chunk to fill
  CHECK_EQ(s->prefault_signal, 1);
}

TEST(records_of_a_retired_thread_share_a_chunk) {
  const auto s = make_state(0);
  begin_session(s.get(), 0, 3);
  fp::ThreadBlock block{};
  block.flags = fp::thread_flag::retired;
  fp::Slot* first = fp::leader_reserve_slow(s.get(), &block, 2, 1);
  fp::Chunk* chunk = block.track->newest;
  CHECK(first == fp::chunk_slots(chunk));
  CHECK_EQ(chunk->used_bytes, 2 * 24);
  CHECK_EQ(block.cursor, 0);  // its storage is not used
  CHECK_EQ(block.limit, 0);
  first[2].begin = first[5].begin = 9;
  fp::Slot* second = fp::leader_reserve_slow(s.get(), &block, 3, 1);
  CHECK(second == first + 2);
  CHECK_EQ(chunk->used_bytes, 5 * 24);
  CHECK_EQ(first[5].begin, 0);
  // To the last slot of the chunk, and on in the next.
  chunk->used_bytes = 2724 * 24;
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) == first + 2724);
  CHECK_EQ(chunk->used_bytes, 2725 * 24);
  CHECK(fp::leader_reserve_slow(s.get(), &block, 1, 1) == fp::chunk_slots(block.track->newest));
  CHECK(block.track->newest != chunk);
  CHECK(chunk->place == fp::ChunkPlace::full);
}

TEST(a_chunk_begins_with_memberships_and_the_task) {
  const auto s = make_state(0);
  begin_session(s.get(), 0, 9).local = 1;
  begin_session(s.get(), 2, 9).local = 1;
  fp::ThreadBlock block{};
  fp::leader_track(s.get(), &block);
  block.track->local_sessions = 5;
  block.track->local_newest_id = 12;
  const fp::Site named = fp::in_category(fp::task_switch_site, "mine");
  block.track->task_site = &named;
  block.track->task_word = 77;
  fp::Slot* slot = fp::leader_reserve_slow(s.get(), &block, 1, 1);
  const fp::Slot* slots = fp::chunk_slots(block.track->newest);
  CHECK(slot == slots + 3);
  CHECK_EQ(slots[0].end, 21);
  CHECK_EQ(slots[1].end, 25);
  CHECK_EQ(slots[2].end, 77);
  CHECK_EQ(block.cursor, address(slots + 4));
}

TEST(threads_that_write_outside_the_file_are_told_apart) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  CHECK(!fp::writes_outside(s.get(), track));
  fp::ThreadBlock block{};
  track->block = &block;
  CHECK(!fp::writes_outside(s.get(), track));  // no chunk
  fp::Chunk* chunk = open_chunk(s.get(), track);
  CHECK(fp::writes_outside(s.get(), track));
  track->alive = 0;
  CHECK(!fp::writes_outside(s.get(), track));
  track->alive = 1;
  track->block = nullptr;
  CHECK(!fp::writes_outside(s.get(), track));
  track->block = &block;
  fp::close_chunk(s.get(), track, chunk, address(fp::chunk_slots(chunk)));
  CHECK(!fp::writes_outside(s.get(), track));
}
