// SPDX-License-Identifier: Apache-2.0
// Tracks and their chunks: what closing a chunk counts, which chunks are freed, where the records
// of a chunk end, and what a thread leaves when it exits.
#include <cstring>
#include <string>
#include <vector>

#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;
using private_state::dropped;

namespace {

std::vector<fp::Chunk*> chunks_of(const fp::Track* track) {
  std::vector<fp::Chunk*> chunks;
  const fp::Chunk* previous = nullptr;
  for (fp::Chunk* chunk = track->oldest; chunk != nullptr; chunk = chunk->next) {
    CHECK(chunk->previous == previous);
    previous = chunk;
    chunks.push_back(chunk);
  }
  CHECK(track->newest == previous);
  return chunks;
}

}  // namespace

TEST(new_tracks_are_numbered_and_listed) {
  const auto s = make_state();
  fp::Track* first = fp::new_track(s.get());
  fp::Track* second = fp::new_track(s.get());
  CHECK_EQ(first->id, 1);
  CHECK_EQ(second->id, 2);
  CHECK_EQ(first->alive, 1);
  CHECK_EQ(first->pid, static_cast<uint32_t>(::getpid()));
  CHECK_EQ(first->tid, fp::platform::thread_id());
  CHECK(s->tracks == second && second->next == first);
  int counters = 0;
  first->counters = &counters;
  first->local_sessions = 5;
  fp::free_track(s.get(), first);  // not the first of the list
  CHECK_EQ(length(s->tracks), 1);
  CHECK(s->free_tracks == first);
  fp::Track* third = fp::new_track(s.get());
  CHECK(third == first);  // its memory is used again
  CHECK_EQ(third->id, 3);
  CHECK_EQ(third->local_sessions, 0);
  CHECK(third->counters == &counters);
  CHECK(s->free_tracks == nullptr);
  fp::free_track(s.get(), third);
  fp::free_track(s.get(), second);
  CHECK(s->tracks == nullptr);
  CHECK_EQ(length(s->free_tracks), 2);
}

TEST(names_of_tracks_are_cut_at_63_bytes) {
  fp::Track track{};
  fp::set_track_text(&track, "worker", 6, " (signals)");
  CHECK_EQ(std::string(track.name), "worker (signals)");
  CHECK_EQ(track.name_length, 16);
  fp::set_track_text(&track, "ab", 1, "");
  CHECK_EQ(std::string(track.name), "a");
  CHECK_EQ(track.name_length, 1);
  const std::string text(70, 'x');
  fp::set_track_text(&track, text.data(), 63, "y");
  CHECK_EQ(std::string(track.name), text.substr(0, 63));
  fp::set_track_text(&track, text.data(), 64, "y");
  CHECK_EQ(std::string(track.name), text.substr(0, 63));
  fp::set_track_text(&track, text.data(), 60, "1234");
  CHECK_EQ(std::string(track.name), text.substr(0, 60) + "123");
  CHECK_EQ(track.name_length, 63);
}

TEST(a_chunk_that_is_handed_out_describes_its_thread) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* first = fp::take_chunk(s.get(), false);
  first->counted = 3;
  first->used_bytes = 99;
  const uint64_t before = fp::ticks(s.get());
  fp::append_chunk(s.get(), track, first);
  CHECK(first->open_ticks >= before && first->open_ticks <= fp::ticks(s.get()));
  CHECK_EQ(first->close_ticks, UINT64_MAX);
  CHECK_EQ(first->sequence, 0);
  CHECK_EQ(first->track_id, track->id);
  CHECK_EQ(first->tid, track->tid);
  CHECK_EQ(first->pid, track->pid);
  CHECK_EQ(first->used_bytes, 0);
  CHECK_EQ(first->counted, 0);
  CHECK_EQ(first->gen, 1);
  CHECK(first->owner == track);
  CHECK(first->place == fp::ChunkPlace::current);
  fp::Chunk* second = open_chunk(s.get(), track);
  fp::Chunk* third = open_chunk(s.get(), track);
  CHECK_EQ(third->sequence, 2);
  CHECK(chunks_of(track) == (std::vector<fp::Chunk*>{first, second, third}));
  fp::unlink_chunk(track, second);
  CHECK(chunks_of(track) == (std::vector<fp::Chunk*>{first, third}));
  fp::unlink_chunk(track, third);
  CHECK(chunks_of(track) == (std::vector<fp::Chunk*>{first}));
  fp::unlink_chunk(track, first);
  CHECK(chunks_of(track).empty());
}

TEST(records_count_by_time_category_and_kind) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* chunk = open_chunk(s.get(), track);
  fp::Slot* slot = fp::chunk_slots(chunk);
  slot = put(slot, 100, 101);
  slot = put(slot, 110, 0, mark_site);
  slot = put(slot, 120, 120, range_site, fp::RecordTag::late);  // ends of other records
  slot = put(slot, 120, 120, range_site, fp::RecordTag::cross_thread_end);
  slot = put(slot, 120, 120, range_site, fp::RecordTag::async_end);
  slot = put(slot, 125, 3, fp::task_switch_site);
  reinterpret_cast<uint64_t*>(slot + 1)[0] = 0;
  slot = put(slot, 130, 135, range_site, fp::RecordTag::detailed);
  slot = put(slot, 199, 200);
  const auto count = [&](uint64_t t0, uint64_t t1, uint32_t mask) {
    const fp::RecordCount found = fp::count_records(chunk, slot, {10, t0, t1, mask, false});
    CHECK(found.stopped_at == slot);
    return found.events;
  };
  CHECK_EQ(count(0, 1000, fp::category::all), 4);
  CHECK_EQ(count(0, 1000, fp::category::user), 3);
  CHECK_EQ(count(0, 1000, fp::category::mark), 1);
  CHECK_EQ(count(0, 1000, fp::category::op), 0);
  CHECK_EQ(count(100, 1000, fp::category::all), 4);  // t0 belongs to it, t1 does not
  CHECK_EQ(count(101, 1000, fp::category::all), 3);
  CHECK_EQ(count(0, 199, fp::category::all), 3);
  CHECK_EQ(count(0, 200, fp::category::all), 4);
  // A slot that is reserved but not written ends the count.
  slot->begin = 99;
  const fp::RecordCount partial =
      fp::count_records(chunk, slot + 1, {10, 0, 1000, fp::category::all, false});
  CHECK_EQ(partial.events, 4);
  CHECK(partial.stopped_at == slot);
}

TEST(records_of_a_thread_local_session_count_between_its_membership_records) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* chunk = open_chunk(s.get(), track);
  fp::Slot* slot = fp::chunk_slots(chunk);
  slot = put(slot, 100, 101);
  slot = put(slot, 102, fp::membership_word(10, true), fp::membership_site);
  slot = put(slot, 103, 104);
  slot = put(slot, 105, 106);
  slot = put(slot, 107, fp::membership_word(10, false), fp::membership_site);
  slot = put(slot, 108, 109);
  const auto count = [&](uint64_t id, bool local) {
    return fp::count_records(chunk, slot, {id, 0, 1000, fp::category::all, local}).events;
  };
  CHECK_EQ(count(10, true), 2);
  CHECK_EQ(count(11, true), 0);
  CHECK_EQ(count(11, false), 4);
}

TEST(open_ranges_are_found) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* chunk = full_chunk(s.get(), track, 3);
  CHECK(!fp::has_open_slots(chunk));
  fp::Slot* slots = fp::chunk_slots(chunk);
  slots[1].end = 0;
  CHECK(fp::has_open_slots(chunk));
  slots[1].end = slots[1].begin - 1;  // left behind by the slot's previous use
  CHECK(fp::has_open_slots(chunk));
  slots[1].end = slots[1].begin;
  CHECK(!fp::has_open_slots(chunk));
  slots[1].site = fp::site_word(&mark_site, fp::RecordTag::slot);  // has no end
  slots[1].end = 0;
  CHECK(!fp::has_open_slots(chunk));
  slots[1].site = fp::site_word(&range_site, fp::RecordTag::late);  // takes two units
  CHECK(!fp::has_open_slots(chunk));
  slots[1] = {101, 0, fp::site_word(&range_site, fp::RecordTag::detailed)};
  reinterpret_cast<uint64_t*>(slots + 2)[0] = 2;
  CHECK(fp::has_open_slots(chunk));
  slots[1].end = 102;
  CHECK(!fp::has_open_slots(chunk));
  slots[0].begin = 99;  // reserved, not written
  CHECK(fp::has_open_slots(chunk));
  // What a drain has found is not looked for again, until the chunk is handed out again.
  chunk->quiet_gen = chunk->gen;
  CHECK(!fp::has_open_slots(chunk));
  ++chunk->gen;
  CHECK(fp::has_open_slots(chunk));
  chunk->quiet_gen = chunk->gen;
  chunk->place = fp::ChunkPlace::current;
  CHECK(fp::has_open_slots(chunk));
}

TEST(closing_a_chunk_counts_what_was_refused) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::SessionSlot& keeping = begin_session(s.get(), 0);
  fp::SessionSlot& pinned = begin_session(s.get(), 1);
  fp::SessionSlot& overwriting =
      begin_session(s.get(), 2, 100, fp::OverflowPolicy::overwrite_oldest);
  fp::SessionSlot& later = begin_session(s.get(), 3);
  fp::SessionSlot& counted = begin_session(s.get(), 4);
  later.t0 = UINT64_MAX - 1;
  fp::Chunk* chunk = open_chunk(s.get(), track);
  chunk->pins = 1u << 1;
  chunk->counted = 1u << 4;
  const fp::Slot* last = put(put(fp::chunk_slots(chunk), 100, 101), 102, 103);
  const uint64_t before = fp::ticks(s.get());
  fp::close_chunk(s.get(), track, chunk, address(last));
  CHECK_EQ(chunk->used_bytes, 2 * 24);
  CHECK(chunk->close_ticks >= before && chunk->close_ticks <= fp::ticks(s.get()));
  CHECK(chunk->place == fp::ChunkPlace::full);
  CHECK(fp::closed_end(chunk) == last);
  CHECK_EQ(track->unpinned, 0);
  CHECK_EQ(dropped(keeping, fp::DropCause::bound), 2);
  CHECK_EQ(dropped(pinned, fp::DropCause::bound), 0);
  CHECK_EQ(dropped(overwriting, fp::DropCause::bound), 0);
  CHECK_EQ(dropped(later, fp::DropCause::bound), 0);
  CHECK_EQ(dropped(counted, fp::DropCause::bound), 0);
  CHECK_EQ(chunk->counted, 1u << 0 | 1u << 4);

  // A slot that is still being written: nothing is counted yet.
  chunk = open_chunk(s.get(), track);
  fp::Slot* slot = put(fp::chunk_slots(chunk), 100, 101);
  fp::blank_slot(slot);
  fp::close_chunk(s.get(), track, chunk, address(slot + 1));
  CHECK_EQ(track->unpinned, 1);
  CHECK_EQ(dropped(keeping, fp::DropCause::bound), 2);
  CHECK_EQ(chunk->counted, 0);
}

TEST(a_session_that_starts_when_a_chunk_closes_counts_it) {
  const auto s = make_state();
  s->slow_clock = 1;
  s->last_slow_ticks = uint64_t{1} << 62;  // ahead of the clock: the next stamp is one more
  fp::Track* track = fp::new_track(s.get());
  fp::SessionSlot& slot = begin_session(s.get(), 0);
  fp::Chunk* chunk = open_chunk(s.get(), track);
  slot.t0 = (uint64_t{1} << 62) + 2;  // the chunk is closed at this very stamp
  const fp::Slot* last = put(fp::chunk_slots(chunk), slot.t0, slot.t0);
  fp::close_chunk(s.get(), track, chunk, address(last));
  CHECK_EQ(chunk->close_ticks, slot.t0);
  CHECK_EQ(dropped(slot, fp::DropCause::bound), 1);
  fp::count_recycled(s.get(), chunk);
  CHECK_EQ(dropped(slot, fp::DropCause::bound), 1);  // once
  chunk->counted = 0;
  fp::count_recycled(s.get(), chunk);
  CHECK_EQ(dropped(slot, fp::DropCause::bound), 2);
}

TEST(lost_records_count_for_the_sessions_that_wanted_them) {
  const auto s = make_state();
  fp::SessionSlot& slot = begin_session(s.get(), 0, 100, fp::OverflowPolicy::drop_newest, 0x3);
  fp::SessionSlot& last = begin_session(s.get(), 63, 100, fp::OverflowPolicy::drop_newest, 0x1);
  uint64_t in_file[fp::kMaxDropCauses] = {};
  slot.dropped_in_file = in_file;
  slot.t0 = 100;
  slot.t1 = 200;
  const auto count = [&](uint32_t mask, uint64_t stamp, const fp::Track* track = nullptr) {
    const uint64_t before = dropped(slot, fp::DropCause::reentrant);
    fp::count_dropped(s.get(), track, mask, stamp, fp::DropCause::reentrant);
    return dropped(slot, fp::DropCause::reentrant) - before;
  };
  CHECK_EQ(count(0x2, 150), 1);
  CHECK_EQ(dropped(last, fp::DropCause::reentrant), 0);
  CHECK_EQ(in_file[3], 1);
  CHECK_EQ(count(0x1, 100), 1);
  CHECK_EQ(dropped(last, fp::DropCause::reentrant), 1);
  CHECK_EQ(count(0x1, 99), 0);
  CHECK_EQ(count(0x1, 199), 1);
  CHECK_EQ(count(0x1, 200), 0);
  CHECK_EQ(count(0x4, 150), 0);
  CHECK_EQ(count(fp::mask_bit::callbacks, 150), 0);  // no category
  CHECK_EQ(count(0x1 | fp::kEndRecord, 150), 0);     // an end is not an event
  CHECK_EQ(dropped(slot, fp::DropCause::ends), 1);
  CHECK_EQ(in_file[8], 1);
  slot.live = 0;
  CHECK_EQ(count(0x1, 150), 0);
  slot.live = 1;
  slot.local = 1;
  CHECK_EQ(count(0x1, 150), 0);
  fp::Track track{};
  CHECK_EQ(count(0x1, 150, &track), 0);
  track.local_sessions = 1;
  track.local_newest_id = 10;
  CHECK_EQ(count(0x1, 150, &track), 1);
}

TEST(a_sweep_frees_what_no_session_and_no_open_range_needs) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* pinned = full_chunk(s.get(), track);
  pinned->pins = 2;
  track->unpinned = 0;
  fp::Chunk* open = full_chunk(s.get(), track);
  leave_open(open);
  fp::Chunk* idle = full_chunk(s.get(), track);
  fp::Chunk* current = open_chunk(s.get(), track);
  CHECK_EQ(track->unpinned, 2);
  CHECK(!fp::sweep_track(s.get(), track));
  CHECK(chunks_of(track) == (std::vector<fp::Chunk*>{pinned, open, current}));
  CHECK_EQ(track->unpinned, 1);
  CHECK(s->free_chunks == idle);
  CHECK_EQ(s->free_count, 1);

  // A dead thread's ranges do not end any more.
  track->alive = 0;
  CHECK(!fp::sweep_track(s.get(), track));
  CHECK(chunks_of(track) == (std::vector<fp::Chunk*>{pinned, current}));
  CHECK_EQ(track->unpinned, 0);
  CHECK(s->free_chunks == open);
  fp::close_chunk(s.get(), track, current, address(fp::chunk_slots(current)));
  pinned->pins = 0;
  track->unpinned = 2;
  // While a session overwrites, the chunks are its records.
  begin_session(s.get(), 0, 100, fp::OverflowPolicy::overwrite_oldest);
  CHECK(!fp::sweep_track(s.get(), track));
  CHECK_EQ(chunks_of(track).size(), 2);
  fp::delist_session(s.get(), 0);
  begin_session(s.get(), 1);
  CHECK(fp::sweep_track(s.get(), track));
  CHECK(chunks_of(track).empty());
  CHECK_EQ(s->free_count, 4);
  track->alive = 1;
  CHECK(!fp::sweep_track(s.get(), track));  // the track of a live thread stays
}

TEST(the_end_of_a_current_chunk_is_its_threads_cursor) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* before = full_chunk(s.get(), track, 7);
  fp::Chunk* chunk = open_chunk(s.get(), track);
  fp::Slot* slots = fp::chunk_slots(chunk);
  fp::Slot* written = slots;
  for (uint64_t i = 0; i < 5; ++i) written = put(written, 100 + i, 101 + i);
  fp::blank_slot(written);
  fp::ThreadBlock block{};
  track->block = &block;
  block.cursor = address(slots + 3);
  CHECK(fp::chunk_written_end(track, chunk) == slots + 3);
  block.cursor = address(slots);
  CHECK(fp::chunk_written_end(track, chunk) == slots);
  block.cursor = address(chunk) + fp::kChunkBytes;
  CHECK(address(fp::chunk_written_end(track, chunk)) == address(chunk) + 65536);
  track->suspended_cursor = address(slots + 4);  // a signal scope uses the block
  CHECK(fp::chunk_written_end(track, chunk) == slots + 4);
  // Both lie elsewhere: the records are walked.
  track->suspended_cursor = 0;
  block.cursor = address(chunk) + fp::kChunkBytes + 1;
  CHECK(fp::chunk_written_end(track, chunk) == slots + 5);
  block.cursor = address(slots) - 1;
  CHECK(fp::chunk_written_end(track, chunk) == slots + 5);
  for (written = slots; written < slots + fp::kChunkCapacity;) written = put(written, 100, 101);
  CHECK(fp::chunk_written_end(track, chunk) == slots + fp::kChunkCapacity);
  // A record that seems to be longer than the chunk does not lead out of it.
  slots[fp::kChunkCapacity - 1].site = fp::site_word(&range_site, fp::RecordTag::late);
  CHECK(fp::chunk_written_end(track, chunk) == slots + fp::kChunkCapacity);
  // Closed chunks, and those of threads without a block, have their length.
  CHECK(fp::chunk_written_end(track, before) == fp::chunk_slots(before) + 7);
  track->block = nullptr;
  chunk->used_bytes = 2 * 24;
  CHECK(fp::chunk_written_end(track, chunk) == slots + 2);
}

TEST(a_thread_that_exits_leaves_what_sessions_read) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::Track* signals = fp::new_track(s.get());
  fp::ThreadBlock block{};
  track->block = &block;
  signals->block = &block;
  signals->is_signal = 1;
  track->signal = signals;
  block.track = track;
  block.mask = 7;
  fp::Chunk* chunk = open_chunk(s.get(), track);
  chunk->pins = 1;
  fp::Slot* end = put(put(fp::chunk_slots(chunk), 100, 101), 102, 103);
  block.cursor = address(end);
  block.limit = address(fp::chunk_end(chunk));
  full_chunk(s.get(), signals);
  fp::retire_track(s.get(), &block);
  CHECK_EQ(block.cursor, 0);
  CHECK_EQ(block.limit, 0);
  CHECK_EQ(block.mask, 0);
  CHECK_EQ(block.flags, fp::thread_flag::retired);
  CHECK(block.track == nullptr);
  CHECK_EQ(track->alive, 0);
  CHECK(track->block == nullptr);
  CHECK(chunk->place == fp::ChunkPlace::full);
  CHECK_EQ(chunk->used_bytes, 48);
  CHECK(s->tracks == track && track->next == nullptr);  // pinned
  CHECK(s->free_tracks == signals);
  CHECK_EQ(s->free_count, 1);

  // Without records, nothing is left.
  fp::Track* idle = fp::new_track(s.get());
  CHECK(idle == signals);
  block = fp::ThreadBlock{};
  block.track = idle;
  idle->block = &block;
  fp::retire_track(s.get(), &block);
  CHECK(s->free_tracks == idle);
  fp::retire_track(s.get(), &block);  // a thread without a track
  CHECK_EQ(length(s->free_tracks), 1);
}

TEST(threads_register_once_and_not_with_a_replaced_block) {
  const auto s = make_state();
  fp::ThreadBlock block{};
  s->thread_block = [] { return static_cast<fp::ThreadBlock*>(nullptr); };
  CHECK(fp::register_track(s.get(), &block) == nullptr);
  CHECK_EQ(s->recorded_once, 0);
  s->thread_block = nullptr;
  CHECK(fp::leader_track(s.get(), &block) != nullptr);
  fp::Track* track = block.track;
  CHECK(fp::leader_track(s.get(), &block) == track);
  CHECK(track->block == &block);
  CHECK(track->name_length > 0);
  CHECK_EQ(track->name_length, std::strlen(track->name));
  CHECK_EQ(s->recorded_once, 1);
  CHECK_EQ(block.flags, 0);
  // Its storage was handed back: nothing may refer to it.
  fp::ThreadBlock retired{};
  retired.flags = fp::thread_flag::retired;
  CHECK(fp::leader_track(s.get(), &retired) != nullptr);
  CHECK(retired.track->block == nullptr);
  CHECK_EQ(retired.flags, fp::thread_flag::retired);
  fp::ThreadBlock busy{};
  busy.flags = fp::thread_flag::busy;
  CHECK(fp::leader_track(s.get(), &busy) == nullptr);
  CHECK_EQ(length(s->tracks), 2);

  fp::Track* signals = fp::leader_signal_track(s.get(), &block, track);
  CHECK(track->signal == signals);
  CHECK(signals->block == &block);
  CHECK_EQ(signals->is_signal, 1);
  CHECK_EQ(std::string(signals->name), std::string(track->name) + " (signals)");
}
