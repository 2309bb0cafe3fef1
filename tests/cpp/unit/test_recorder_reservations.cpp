// SPDX-License-Identifier: Apache-2.0
// Space that is reserved but not written when a session stops: it contains stale data from the
// chunk's previous use, which must not be read as a record.
#include "adapters/torch/ops/op_record.hpp"
#include "fastprof/payload/blocks/decode_detail.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site site = site_of_range("plain");

// Leaves a chunk whose every second unit are words that look like a late begin.
void leave_words_behind() {
  constexpr uint64_t kLate = ~uint64_t{0} >> 1;
  Running session;
  for (int i = 0; i < 2000; ++i) {
    FASTPROF_RANGE_ARGS("words", "a", kLate, "b", kLate, "c", kLate);
  }
  session.stop();
}

}  // namespace

TEST(what_is_not_written_yet_is_no_record) {
  for (int before = 0; before < 6; ++before) {
    leave_words_behind();
    Running session;
    for (int i = 0; i < before; ++i) fp::end_range(fp::begin_range(site));
    fp::State* s = fp::state();
    const fp::Slot* slot = fp::reserve(s, fp::thread_block(), 2, site.mask);
    CHECK(slot != nullptr);
    const fp::Capture& capture = session.stop();
    CHECK_EQ(capture.size(), static_cast<size_t>(before));
    CHECK_EQ(dropped(capture, fp::DropCause::in_flight), 1);
  }
}

// The room of an op is reserved before its length is known (adapters/torch/ops/detailed_op.cpp).
TEST(what_was_handed_back_after_the_snapshot_is_no_record) {
  fp::State* s = fp::state();
  for (const bool refused : {false, true}) {  // by a session that is full: counted, not read
    leave_words_behind();
    Running other;
    fp::SessionRequest request;
    request.max_bytes = refused ? fp::kChunkBytes : 0;
    const int index = fp::start_session(s, request);
    const size_t count = refused ? fp::kChunkCapacity + 10 : 1;
    for (size_t i = 0; i < count; ++i) fp::end_range(fp::begin_range(site));
    fp::ThreadBlock* block = fp::thread_block();
    fp::Slot* slot = fp::reserve_here(block, 10);
    CHECK(slot != nullptr);

    fp::ScopedLock drains(s->drain_lock);
    fp::Snapshot snapshot;
    {
      fp::StateLock hold(s);
      fp::end_session(s, index);
      snapshot = fp::take_snapshot(s, index);
    }
    const uint64_t begin = fp::stamp_slot_any_clock(s, slot, 0, reinterpret_cast<uintptr_t>(&site));
    CHECK(fp::give_units_back(block, slot, 10, 1));
    fp::end_range(
        fp::RangeHandle{slot, fp::begin_to_keep(s, begin, false), &site, block->track->id});
    fp::Drain drain;
    drain.read(s, snapshot);
    fp::release_session(s, index);
    CHECK_EQ(drain.rows().in_flight, 0);
    CHECK(drain.row_count() != 0);
    CHECK_EQ(drain.rows().refused != 0, refused);
    CHECK_EQ(drain.row_count() + drain.rows().refused, count);  // the last came after t1
  }
}

TEST(room_behind_which_somebody_else_recorded_stays_the_records) {
  leave_words_behind();
  fp::State* s = fp::state();
  Running session;
  fp::end_range(fp::begin_range(site));  // takes a chunk
  fp::ThreadBlock* block = fp::thread_block();
  fp::Slot* slot = fp::reserve_here(block, 10);
  CHECK(slot != nullptr);
  fp::torch_adapter::BlockWords blocks(reinterpret_cast<uint64_t*>(slot + 1));
  blocks.put_op(7, 0, 0);
  const uint32_t units = blocks.finish();
  CHECK_EQ(units, 1);
  fp::end_range(fp::begin_range(site));  // as a signal handler may
  CHECK(!fp::give_units_back(block, slot, 10, 1 + units));
  blocks.pad_to(9);
  // As stamp_op(), which is for the counter only: with a slow clock ops are begun elsewhere.
  const uint64_t begin =
      fp::stamp_slot_any_clock(s, slot, 0, fp::site_word(&site, fp::RecordTag::detailed));
  fp::end_range(fp::RangeHandle{slot, fp::begin_to_keep(s, begin, false), &site, block->track->id});
  fp::end_range(fp::begin_range(site));
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 4);
  CHECK_EQ(capture.dropped_total(), 0);
  size_t with_number = 0;
  for (size_t i = 0; i < capture.size(); ++i) {
    CHECK(finished(capture, i));
    const fp::DetailSpan op = fp::find_detail_block(capture, i, fp::DetailType::op);
    with_number += op.found && op.count == 1 && op.words[0] == 7 ? 1 : 0;
  }
  CHECK_EQ(with_number, 1);
}
