// SPDX-License-Identifier: Apache-2.0
// Inner parts of writing records: reservations at the end of a chunk, packed words, the masks that
// decide, ranges with arguments by the classes themselves, signal scopes.
#include <memory>
#include <string>
#include <utility>

#include "fastprof/recorder/hot_path/detailed_range.hpp"
#include "fastprof/recorder/hot_path/memory.hpp"
#include "fastprof/recorder/hot_path/signal_scope.hpp"
#include "fastprof/recorder/hot_path/task_switch.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site plain_site =
    fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, "plain",
                  __FILE__, "", __LINE__);
constexpr fp::Site async_site =
    fp::make_site(fp::SiteKind::async_range, fp::category::async, fp::RecordScope::USER_SCOPE,
                  "async", __FILE__, "", __LINE__);

constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "f", "g"};
constexpr fp::ArgType kTypes[7] = {};
template <uint8_t Count>
constexpr fp::Site site_with = fp::make_site(fp::SiteKind::range, fp::category::user,
                                             fp::RecordScope::USER_SCOPE, "with", __FILE__, "",
                                             __LINE__, Count, kNames, kTypes);

// One range by Range(site, args), and one that follows.
template <uint8_t Count>
void range_with() {
  uint64_t args[Count];
  for (uint64_t i = 0; i < Count; ++i) args[i] = 10 * Count + i;
  const fp::Range range(site_with<Count>, args);
  CHECK(range.active());
  const fp::Range inner(plain_site);
  CHECK(inner.active());
}

}  // namespace

TEST(a_chunk_is_filled_to_its_last_slot) {
  fp::Session session;
  session.start();
  fp::end_range(fp::begin_range(plain_site));  // takes a chunk
  fp::ThreadBlock* block = fp::thread_block();
  const uintptr_t cursor = block->cursor, limit = block->limit;
  constexpr size_t kSlot = 24;
  CHECK_EQ((limit - cursor) % kSlot, 0);
  CHECK(fp::reserve_here(block, 1) == reinterpret_cast<fp::Slot*>(cursor));
  CHECK_EQ(block->cursor, cursor + kSlot);
  const auto at = [&](uintptr_t place, uint32_t units) {
    fp::store_relaxed(&block->cursor, place);
    const bool fits = fp::reserve_here(block, units) != nullptr;
    CHECK_EQ(block->cursor, fits ? place + units * kSlot : place);
    return fits;
  };
  CHECK(at(limit - kSlot, 1) && at(limit - 5 * kSlot, 5));
  CHECK(!at(limit - kSlot, 2) && !at(limit, 1) && !at(limit - 5 * kSlot, 6));
  // The cursor of another chunk, before or behind this one.
  const uintptr_t first = limit - fp::kChunkCapacity * kSlot;
  CHECK(at(first, 1) && at(first, 7));
  CHECK(!at(first - kSlot, 1) && !at(limit + kSlot, 1) && !at(0, 1));
  fp::move_cursor(block, cursor);
  fp::end_range(fp::begin_range(plain_site));
  session.stop();
  CHECK_EQ(session.capture().dropped_total(), 0);
  CHECK(count_named(session.capture(), "plain") >= 1);
}

TEST(kept_begins_tell_how_they_end) {
  CHECK_EQ(fp::begin_stamp(5), 5);
  CHECK_EQ(fp::begin_stamp(~uint64_t{5}), 5);
  CHECK_EQ(fp::begin_stamp(~uint64_t{0}), 0);
  const auto s = std::make_unique<fp::State>();
  CHECK_EQ(fp::begin_to_keep(s.get(), 5, false), 5);
  CHECK_EQ(fp::begin_to_keep(s.get(), 5, true), ~uint64_t{5});
  s->slow_clock = 1;
  CHECK_EQ(fp::begin_to_keep(s.get(), 5, false), ~uint64_t{5});
}

TEST(what_is_wanted) {
  const auto s = std::make_unique<fp::State>();
  fp::ThreadBlock block{};
  const auto wanted = [&](uint32_t mask) {
    fp::store_relaxed(&s->mask, mask);
    return fp::wanted(s.get(), &block, fp::category::user);
  };
  CHECK(wanted(fp::category::user) && wanted(fp::category::all));
  CHECK(!wanted(0) && !wanted(fp::category::op) && !wanted(fp::mask_bit::local));
  block.mask = fp::category::user;
  CHECK(wanted(fp::mask_bit::local) && !wanted(fp::category::op));
  block.mask = fp::category::op;
  CHECK(!wanted(fp::mask_bit::local));
  // Without a static thread block the mask proper is elsewhere.
  CHECK(!wanted(fp::mask_bit::dynamic));
  s->real_mask = fp::category::user;
  CHECK(wanted(fp::mask_bit::dynamic) && !wanted(fp::category::op));
}

TEST(devices_are_packed_with_bytes) {
  CHECK_EQ(fp::pack_device(0, 0, 0), 0);
  CHECK_EQ(fp::pack_device(0x123456789ABC, 0x12, 0x34), 0x3412123456789ABC);
  CHECK_EQ(fp::pack_device(0xFFFFFFFFFFFF, 1, 0), 0x0001FFFFFFFFFFFF);
  CHECK_EQ(fp::pack_device(0x1000000000000, 1, 0), 0x0001FFFFFFFFFFFF);
  CHECK_EQ(fp::pack_device(~uint64_t{0}, 0, 2), 0x0200FFFFFFFFFFFF);
  CHECK_EQ(fp::pack_device(5, 0, -1), 0xFF00000000000005);
  CHECK_EQ(fp::memory_site.line, 0);
  CHECK_EQ(fp::out_of_memory_site.line, 0);
}

// Of each category alone: neither a session of others nor none at all records memory.
TEST(memory_is_recorded_by_who_asks_for_it) {
  for (const bool asked : {false, true}) {
    fp::SessionOptions options;
    options.categories = asked ? fp::category::memory : fp::category::user;
    fp::Session session(options);
    session.start();
    fp::record_memory(&session, 64, 1, 2, 0, -1);
    fp::record_out_of_memory(64, 1, 2, 0, -1);
    session.stop();
    CHECK_EQ(session.capture().size(), asked ? 2 : 0);
    if (!asked) continue;
    CHECK_EQ(name_of(session.capture(), 0), "[memory]");
    CHECK_EQ(name_of(session.capture(), 1), "[OutOfMemory]");
  }
}

TEST(ranges_of_any_number_of_arguments) {
  {
    const uint64_t args[] = {1};
    const fp::Range off(plain_site), too(site_with<1>, args);
    CHECK(!off.active() && !too.active());
    CHECK(!fp::begin_range(plain_site) && !fp::begin_async(async_site));
    CHECK(!fp::RangeHandle{} && !fp::AsyncHandle{});
    fp::end_range(fp::RangeHandle{});
    fp::end_async(fp::AsyncHandle{});
  }
  fp::Session session;
  session.start();
  range_with<1>();
  range_with<2>();
  range_with<3>();
  range_with<4>();
  range_with<6>();
  range_with<7>();
  const uint64_t args[] = {1, 2, 3, 4};
  fp::end_range(fp::begin_range(site_with<4>, args));
  session.stop();
  const fp::Capture& capture = session.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 13);
  CHECK_EQ(count_named(capture, "plain"), 6);
  size_t row = 0;
  for (const uint64_t count : {1, 2, 3, 4, 6, 7}) {
    CHECK_EQ(name_of(capture, row), "with");
    CHECK_EQ(parent_name(capture, row + 1), "with");
    for (uint64_t i = 0; i < count; ++i)
      CHECK_EQ(capture.payload_words[capture.payload[row] + i], 10 * count + i);
    row += 2;
  }
  CHECK_EQ(capture.payload_words[capture.payload[row] + 3], 4);
}

TEST(blocks_and_arguments_of_a_detailed_range) {
  CHECK_EQ(fp::kMaxOwnDetailWords, 32);
  CHECK_EQ(fp::kMaxBlockWords, 2048);
  CHECK_EQ(fp::kDetailCapacity, 192);
  fp::Session session;
  session.start();
  const uint64_t args[] = {1, 2, 3, 4};
  constexpr uint32_t kCounts[] = {0, 2, 3, 4, 2048};
  uint64_t blocks[2048];
  for (const uint32_t count : kCounts) {
    if (count != 0) blocks[0] = fp::detail_block_word(fp::DetailType::op, count - 1);
    for (uint32_t i = 1; i < count; ++i) blocks[i] = 1000 * count + i;
    const fp::OpenRange open =
        fp::begin_detailed(fp::state(), fp::thread_block(), &site_with<4>, args, blocks, count);
    CHECK(open.slot != nullptr);
    fp::end_range({open.slot, open.begin, &site_with<4>, fp::thread_block()->track->id});
  }
  session.stop();
  const fp::Capture& capture = session.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 5);
  for (size_t row = 0; row < 5; ++row) {
    CHECK(finished(capture, row));
    for (uint64_t i = 0; i < 4; ++i)
      CHECK_EQ(capture.payload_words[capture.payload[row] + i], i + 1);
    const fp::RowDetails details = fp::details_of(capture, row);
    size_t seen = 0;
    fp::for_each_block(details.words, details.room, [&](fp::DetailBlock block, const uint64_t* at) {
      CHECK(block.type == fp::DetailType::op);
      CHECK_EQ(block.count, kCounts[row] - 1);
      for (uint32_t i = 0; i < block.count; ++i)
        if (at[i] != 1000 * kCounts[row] + i + 1) CHECK_EQ(at[i], 1000 * kCounts[row] + i + 1);
      ++seen;
    });
    CHECK_EQ(seen, kCounts[row] == 0 ? 0 : 1);
  }
}

TEST(a_signal_scope_records_on_a_track_of_its_own) {
  fp::Session session;
  session.start();
  fp::ThreadBlock* block = fp::thread_block();
  {
    FASTPROF_RANGE("interrupted");
    fp::Track* const track = block->track;
    const uintptr_t cursor = block->cursor, limit = block->limit;
    for (int round = 0; round < 2; ++round) {
      const fp::signal_scope scope;
      fp::Track* const handler = block->track;
      CHECK(handler != track && handler->is_signal != 0 && track->is_signal == 0);
      CHECK(handler == track->signal);
      CHECK_EQ(track->suspended_cursor, cursor);
      CHECK_EQ(handler->suspended_cursor, 0);
      CHECK(handler->primitives == track->primitives);
      FASTPROF_RANGE("handler");
      {
        const fp::signal_scope nested;  // a handler interrupts the handler
        CHECK(block->track != handler && block->track != track);
        FASTPROF_MARK("nested");
      }
      CHECK(block->track == handler);
      FASTPROF_MARK("after nested");
    }
    CHECK(block->track == track);
    CHECK(track->signal->primitives == nullptr);
    CHECK_EQ(block->cursor, cursor);
    CHECK_EQ(block->limit, limit);
    CHECK_EQ(track->suspended_cursor, 0);
    CHECK(track->signal->suspended_cursor != 0);
    FASTPROF_MARK("afterwards");
  }
  session.stop();
  const fp::Capture& capture = session.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 8);
  CHECK_EQ(capture.dropped_total(), 0);
  CHECK_EQ(capture.tracks.size(), 3);
  const auto track_of = [&](const char* name) {
    return capture.track[rows_named(capture, name).at(0)];
  };
  for (const char* name : {"handler", "nested", "after nested"})
    CHECK_EQ(count_named(capture, name), 2);
  CHECK_EQ(track_of("interrupted"), track_of("afterwards"));
  CHECK_EQ(track_of("handler"), track_of("after nested"));
  CHECK(track_of("handler") != track_of("interrupted") &&
        track_of("nested") != track_of("handler"));
  CHECK_EQ(parent_name(capture, rows_named(capture, "afterwards").at(0)), "interrupted");
  CHECK_EQ(parent_name(capture, rows_named(capture, "handler").at(0)), "");
}

// A signal that arrives in the recorder's slow path: the handler's records are counted.
TEST(a_signal_scope_does_nothing_inside_the_recorder) {
  fp::Session session;
  session.start();
  fp::ThreadBlock* block = fp::thread_block();
  { FASTPROF_RANGE("first"); }
  {
    const fp::BusyScope busy(block);
    const fp::signal_scope scope;
    CHECK(block->track->is_signal == 0);
    FASTPROF_RANGE("in the handler");
  }
  { FASTPROF_RANGE("last"); }
  session.stop();
  CHECK_EQ(session.capture().size(), 2);
  CHECK_EQ(dropped(session.capture(), fp::DropCause::reentrant), 1);
}

// Also if it has recorded before its thread joined or left one.
TEST(a_handler_belongs_to_the_sessions_of_its_thread) {
  fp::SessionOptions options;
  options.thread_local_only = true;
  fp::Session first(options), second(options), wide;
  const auto handle = [](const char* name) {
    const fp::signal_scope scope;
    FASTPROF_RANGE_DYNAMIC(std::string(name));
  };
  first.start();
  handle("in the first");
  first.stop();
  CHECK_EQ(first.capture().size(), 1);
  wide.start();
  handle("before");
  second.start();
  handle("in the second");
  handle("again");
  second.stop();
  handle("behind");
  wide.stop();
  CHECK_EQ(second.capture().size(), 2);
  CHECK_EQ(count_named(second.capture(), "in the second"), 1);
  CHECK_EQ(count_named(second.capture(), "again"), 1);
  CHECK_EQ(second.capture().dropped_total(), 0);
  CHECK_EQ(wide.capture().size(), 4);
  CHECK_EQ(wide.capture().dropped_total(), 0);
}

TEST(ids_of_tasks_are_new) {
  const uint32_t first = fp::new_task_id(), second = fp::new_task_id();
  CHECK_EQ(second, first + 1);
  CHECK(first != 0);
  CHECK_EQ(in_child([] {  // a process without a recorded thread has no task
             fp::thread_block()->track = nullptr;
             return static_cast<int>(fp::task_of_this_thread().id);
           }),
           0);
}
