// SPDX-License-Identifier: Apache-2.0
// What readers of a capture rely on: the numbers of its flags, what an empty one says, the
// processes of devices, where details are, self times, and the memory of columns.
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/self_times.hpp"
#include "fastprof/capture/shared_block.hpp"
#include "fastprof/capture/summary.hpp"
#include "fastprof/export/chrome_trace_options.hpp"
#include "fastprof/export/forward_backward.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;

// Python reads the columns of flags, parents and payloads as numbers.
TEST(numbers_in_the_columns) {
  CHECK_EQ(event_flag::finished, 1);
  CHECK_EQ(event_flag::cross_thread_end, 2);
  CHECK_EQ(event_flag::clock_discontinuity, 4);
  CHECK_EQ(event_flag::clamped, 8);
  CHECK_EQ(event_flag::enclosing, 16);
  CHECK_EQ(event_flag::detail, 32);
  CHECK_EQ(kNoParent, -1);
  CHECK_EQ(kNoPayload, 4294967295u);
}

TEST(what_nobody_has_filled_in) {
  const SiteInfo site;
  CHECK(site.line == 0 && site.color == 0 && site.mask == category::user);
  CHECK(site.device_type == -1 && site.device_index == -1);
  const TrackInfo track;
  CHECK(track.id == 0 && track.pid == 0 && track.tid == 0 && track.alive);
  CHECK(!track.is_device() && !track.is_task());
  CHECK(track.thread_id == -1 && track.device_index == -1);
  const Capture capture;
  CHECK_EQ(capture.size(), 0u);
  CHECK(capture.t0_ns == 0 && capture.t1_ns == 0 && capture.clock_error_ns == 0);
  CHECK(capture.exact_stop && capture.clamped == 0 && capture.pid == 0 && capture.node_id == -1);
  CHECK_EQ(capture.dropped_total(), 0u);
  const SummaryRow row;
  CHECK(row.count == 0 && row.total_ns == 0 && row.self_ns == 0 && row.min_ns == 0);
  CHECK(row.mean_ns == 0 && row.p50_ns == 0 && row.p99_ns == 0 && row.max_ns == 0);
  CHECK_EQ(row.unfinished, 0u);
  const Summary summary;
  CHECK(summary.self_total_ns == 0 && summary.window_ns == 0 && summary.ranges == 0);
  CHECK(summary.other_events == 0 && summary.unfinished == 0 && summary.threads == 0);
  CHECK(summary.clock_error_ns == 0 && summary.exact_stop);
  const AutogradNode node;
  CHECK(node.sequence_nr == -1 && node.forward_thread == 0);
  const ForwardBackwardLink link;
  CHECK(link.id == 0 && !link.begins);
  CHECK(TraceProgress().call == nullptr && TraceProgress().state == nullptr);
  CHECK_EQ(PayloadValue().word, 0u);
  const SharedBlock block;
  CHECK(block.words == nullptr && block.count == 0 && block.flags == 0);
}

TEST(kinds_of_tracks) {
  TrackInfo thread, task, queue;
  thread.id = task.id = 7;
  task.thread_id = 0;
  queue.device_index = 0;
  CHECK(!thread.is_task() && task.is_task() && !queue.is_task());
  CHECK(!thread.is_device() && !task.is_device() && queue.is_device());
  CHECK_EQ(thread.id_of_thread(), 7u);
  CHECK_EQ(task.id_of_thread(), 0u);
}

TEST(devices_of_other_processes_have_pids_of_their_own) {
  CHECK_EQ(kFirstForeignDevicePid, 100000000);
  CHECK_EQ(device_pid_in(0, 0), 100000000);
  CHECK_EQ(device_pid_in(42, 3), 100042003);
  CHECK_EQ(device_pid_in(42, 99), 100042099);
  CHECK_EQ(device_pid_in(42, 1000), 100042100);  // the second kind
  CHECK_EQ(device_pid_in(42, 9007), 100042907);
  CHECK_EQ(device_pid_in(42, 100), 100042000);    // from the 101st on they repeat
  CHECK_EQ(device_pid_in(42, 10000), 100042000);  // as from the eleventh kind on
  CHECK_EQ(device_pid_in(4194304, 9099), 4294304999);
  CHECK_EQ(process_of_device(3, 42), 42);
  CHECK_EQ(process_of_device(99999999, 42), 42);
  CHECK_EQ(process_of_device(100000000, 42), 0);
  CHECK_EQ(process_of_device(100042999, 1), 42);
}

TEST(names_of_processes) {
  Capture capture;
  capture.pid = 5;
  capture.process_name = "own";
  capture.process_names = {{6, "six"}, {7, "seven"}};
  CHECK_EQ(capture.name_of_process(5), std::string("own"));
  CHECK_EQ(capture.name_of_process(7), std::string("seven"));
  CHECK_EQ(capture.name_of_process(8), std::string());
}

TEST(only_rows_that_ended_elsewhere_have_an_ending_track) {
  CaptureBuilder b;
  const uint32_t site = b.site("x");
  b.track(10, "a");
  for (int i = 0; i < 5; ++i) b.row(site, i, i + 1);
  b.track(20, "b");
  b.ended_on(1, 1);
  b.ended_on(3, 0);
  const Capture& capture = b.finish();
  for (const size_t row : {0, 2, 4}) CHECK(capture.ending_track(row) == nullptr);
  CHECK_EQ(capture.ending_track(1)->tid, 20);
  CHECK_EQ(capture.ending_track(3)->tid, 10);
}

TEST(open_ranges_are_counted_without_tasks) {
  CaptureBuilder b;
  const uint32_t range = b.site("x"), async = b.site("a", EventKind::async_range),
                 mark = b.site("m", EventKind::mark),
                 task = b.site("t", EventKind::range, "task_lifetime"),
                 await = b.site("t", EventKind::range, "task_await");
  b.track(1, "main");
  b.row(range, 0, -1);
  b.row(async, 1, -1);
  b.row(range, 2, 3);
  b.row(task, 4, -1);
  b.row(await, 5, -1);
  b.instant(mark, 6);
  b.capture.flags.back() = 0;
  CHECK_EQ(b.finish().open_ranges(), 2u);
}

TEST(events_that_are_there_incomplete_are_not_missing) {
  Capture capture;
  for (size_t i = 0; i < kMaxDropCauses; ++i) capture.dropped[i] = uint64_t{1} << i;
  const uint64_t incomplete = (uint64_t{1} << 7) | (uint64_t{1} << 8);  // names, ends
  CHECK_EQ(capture.dropped_total() & incomplete, 0u);
  CHECK_EQ(capture.dropped_total() & 0x27Fu, 0x27Fu);
}

TEST(details_lie_behind_the_words_of_the_site) {
  SiteInfo site;
  site.arg_types = {ArgType::int64, ArgType::string};
  const size_t expected[] = {2, 2, 2, 1, 1, 1, 4, 3, 0, 0};  // by kind; the last is none
  for (uint8_t kind = 0; kind < 10; ++kind) {
    site.kind = static_cast<EventKind>(kind);
    CHECK_EQ(payload_words_of(site), expected[kind]);
  }

  CaptureBuilder b;
  const uint32_t range = b.site("x", EventKind::range, "user_annotation", {{"a", ArgType::int64}});
  b.track(1, "main");
  b.row(range, 0, 1, {5});
  b.row(range, 2, 3, {6, 1, 77}, event_flag::detail);
  const Capture& capture = b.finish();
  CHECK_EQ(details_of(capture, 0).room, 0u);
  CHECK_EQ(details_of(capture, 1).room, 2u);
  CHECK_EQ(details_of(capture, 1).words[1], 77u);
  CHECK_EQ(details_at(capture, 3).room, 1u);
  CHECK(details_at(capture, 4).words == nullptr && details_at(capture, 4).room == 0);

  // A capture that nobody has validated.
  const auto room = [&](auto&& spoil, size_t row = 1) {
    Capture bad = capture;
    spoil(bad);
    return details_of(bad, row).room;
  };
  CHECK_EQ(room([](Capture&) {}), 2u);
  CHECK_EQ(room([](Capture&) {}, 2), 0u);
  CHECK_EQ(room([](Capture& c) { c.flags.resize(1); }), 0u);
  CHECK_EQ(room([](Capture& c) { c.payload.resize(1); }), 0u);
  CHECK_EQ(room([](Capture& c) { c.site.resize(1); }), 0u);
  CHECK_EQ(room([](Capture& c) { c.start_ns.resize(1); }), 0u);
  CHECK_EQ(room([](Capture& c) { c.site[1] = 1; }), 0u);
  CHECK_EQ(room([](Capture& c) { c.payload[1] = kNoPayload; }), 0u);
  CHECK_EQ(room([](Capture& c) { c.payload[1] = 3; }), 0u);
}

TEST(shared_blocks_are_found_by_their_place) {
  Column<uint64_t> words = {0,
                            detail_block_word(DetailType::op_inputs, 2, 9),
                            11,
                            12,
                            detail_block_word(DetailType::op_inputs, 0),
                            detail_block_word(DetailType::op, 0),
                            detail_block_word(DetailType::op_inputs, 1)};
  CHECK_EQ(shared_block_word(1), uint64_t{1} << 32 | 10);
  const SharedBlock found = shared_block(words, shared_block_word(1));
  CHECK(found.words == words.data() + 2);
  CHECK(found.count == 2 && found.flags == 9);
  CHECK(shared_block(words, shared_block_word(4)).words == words.data() + 5);  // of no words
  for (const uint32_t none : {0, 5, 6, 7, 8})  // no block, another, one cut short, and behind all
    CHECK(shared_block(words, shared_block_word(none)).words == nullptr);
  words.push_back(13);
  CHECK(shared_block(words, shared_block_word(6)).words == words.data() + 7);
}

TEST(self_times_of_all_kinds_of_rows) {
  CaptureBuilder b;
  const uint32_t range = b.site("x"), async = b.site("a", EventKind::async_range),
                 mark = b.site("m", EventKind::mark),
                 await = b.site("t", EventKind::range, "task_await");
  b.track(1, "main");
  b.row(range, 0, 100);
  b.row(range, 10, 40);
  b.row(range, 20, 25);
  b.row(async, 50, 70);                       // overlaps with other work
  b.row(await, 75, 80);                       // a suspension: the range awaits
  const size_t moved = b.row(range, 85, 95);  // so does what ended elsewhere
  b.instant(mark, 96);
  b.row(range, 100, 107);  // begins where the first ends: no child
  b.track(2, "other");
  b.row(range, 0, 50);  // at the same time, on another thread
  b.ended_on(moved, 1);
  const Capture& capture = b.finish();
  const std::vector<int64_t> expected = {70, 25, 5, 0, 5, 0, 0, 7, 50};
  const Column<int64_t> all = self_times_ns(capture);
  CHECK_EQ(all.size(), expected.size());
  for (size_t row = 0; row < expected.size(); ++row) {
    CHECK_EQ(all[row], expected[row]);
    CHECK_EQ(self_time_ns(capture, row), expected[row]);
  }
}

TEST(self_times_of_one_row_are_those_of_all) {
  std::mt19937 random(3);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random()) % n; };
  for (int round = 0; round < 50; ++round) {
    CaptureBuilder b;
    const uint32_t sites[] = {b.site("x"), b.site("y"), b.site("m", EventKind::mark),
                              b.site("a", EventKind::async_range)};
    for (int track = 0; track < 2; ++track) {
      b.track(track + 1, "");
      int64_t at = 0;
      for (unsigned n = below(40); n > 0; --n) {
        at += below(3);
        const uint32_t site = sites[below(4)];
        if (site == sites[2])
          b.instant(site, at);
        else
          b.row(site, at, at + below(30));
      }
    }
    const Capture& capture = b.finish();
    const Column<int64_t> all = self_times_ns(capture);
    for (size_t row = 0; row < capture.size(); ++row)
      CHECK_EQ(self_time_ns(capture, row), all[row]);
  }
}

TEST(columns_keep_their_values_at_every_size) {
  constexpr size_t kWords = 2 * 1048576 / 8;  // of a huge page
  for (const size_t size : {size_t{1}, kWords - 1, kWords, kWords + 1, 9 * kWords - 5}) {
    Column<uint64_t> column;
    column.resize(size);
    column.front() = 1;
    column.back() = 2;
    const auto address = reinterpret_cast<uintptr_t>(column.data());
    if (size >= kWords) CHECK_EQ(address % (2 * 1048576), 0u);
    column.push_back(3);
    CHECK(column[size - 1] == 2 && column[size] == 3 && column.size() == size + 1);
    Column<uint64_t> other;
    other = std::move(column);
    CHECK_EQ(other.back(), 3u);
  }
  Column<uint64_t> filled(5, 7);
  CHECK(filled.front() == 7 && filled.back() == 7);
  CHECK(filled.get_allocator() == Column<uint8_t>().get_allocator());
  CHECK(!(filled.get_allocator() != Column<uint8_t>().get_allocator()));
}

// Under a sanitizer, an allocation that is too large ends the program.
#if !FASTPROF_ASAN && !FASTPROF_TSAN
TEST(columns_without_memory_say_so) {
  Column<uint64_t> column;
  CHECK_THROWS(std::bad_alloc, column.reserve(size_t{1} << 59));
  CHECK(column.empty());
}
#endif
