// SPDX-License-Identifier: Apache-2.0
// Drain: records with exact stamps, in a chunk made by hand, become rows. Which belong to a
// session, what each kind has, and what is kept apart: ends, task switches, shared inputs.
#include <string>
#include <vector>

#include "check.hpp"
#include "drained_rows.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/session/chunk_buffer.hpp"

using namespace drained_rows;

namespace {

constexpr const char* kNames[] = {"number", "text"};
constexpr fp::ArgType kTypes[] = {fp::ArgType::int64, fp::ArgType::string};

fp::Site make(fp::SiteKind kind, const char* name, uint8_t arg_count = 0,
              uint32_t mask = fp::category::user) {
  fp::Site site{};
  site.kind = kind;
  site.mask = mask;
  site.name = name;
  site.arg_count = arg_count;
  site.arg_units = static_cast<uint8_t>(kind == fp::SiteKind::counter ? 0 : (arg_count + 2) / 3);
  site.arg_names = kNames;
  site.arg_types = kTypes;
  site.device_type = -1;
  site.device_index = -1;
  return site;
}

const fp::Site kRange = make(fp::SiteKind::range, "range");
const fp::Site kOp = make(fp::SiteKind::range, "op", 0, fp::category::op);
const fp::Site kWithArgs = make(fp::SiteKind::range, "with arguments", 2);
const fp::Site kAsync = make(fp::SiteKind::async_range, "async");
const fp::Site kAsyncWithArgs = make(fp::SiteKind::async_range, "async with arguments", 2);
const fp::Site kMark = make(fp::SiteKind::mark, "mark");
const fp::Site kMarkWithArgs = make(fp::SiteKind::mark, "mark with arguments", 2);
const fp::Site kCounter = make(fp::SiteKind::counter, "counter", 1, fp::category::counter);
const fp::Site kFlowBegin = make(fp::SiteKind::flow_begin, "flow begin");
const fp::Site kFlowEnd = make(fp::SiteKind::flow_end, "flow end");
const fp::Site kMembership = make(fp::SiteKind::session_membership, "membership");
const fp::Site kTask = make(fp::SiteKind::mark, "task", 0, fp::category::task);

// A chunk that was handed out at `kOpened`.
constexpr uint64_t kOpened = 100;

class Records {
 public:
  Records() { memory_->open_ticks = kOpened; }

  void unit(uint64_t a, uint64_t b, uint64_t c) {
    next_->begin = a;
    next_->end = b;
    next_->site = static_cast<uintptr_t>(c);
    ++next_;
  }
  void record(const fp::Site& site, uint64_t begin, uint64_t second,
              fp::RecordTag tag = fp::RecordTag::slot) {
    unit(begin, second, fp::site_word(&site, tag));
  }
  void with_args(const fp::Site& site, uint64_t begin, uint64_t second, uint64_t number,
                 const char* text) {
    record(site, begin, second);
    unit(number, reinterpret_cast<uintptr_t>(text), 0);
  }
  void end(const fp::Site& site, fp::RecordTag tag, uint64_t begin, uint64_t at) {
    record(site, at, begin, tag);
    unit(3, 4, at);
  }
  fp::PinnedRun run() { return {memory_.get(), next_, true}; }
  fp::Chunk* chunk() { return memory_.get(); }

 private:
  fp::ChunkBuffer memory_ = fp::make_chunk_buffer();
  fp::Slot* next_ = fp::chunk_slots(memory_.get());
};

struct Read {
  fp::Drain drain;
  fp::Snapshot snapshot = whole_session();

  explicit Read(bool include_open = false, uint32_t own_track = 0)
      : drain(include_open, own_track) {}
  void read(Records& records, uint32_t track = 7) {
    fp::TrackInfo info;
    info.id = track;
    drain.read_spilled(snapshot, info, records.run());
  }
  fp::TrackRows& rows(size_t track = 0) { return drain.rows().tracks[track]; }
  uint64_t word(size_t row, size_t at) {
    return drain.rows().payload_words[rows().payload[row] + at];
  }
  // "name [begin, end) flags" of each row.
  Lines text() {
    Lines all;
    for (const fp::TrackRows& rows : drain.rows().tracks)
      for (size_t i = 0; i < rows.size(); ++i)
        all.push_back(drain.rows().table.sites[rows.site[i]].name + " [" +
                      std::to_string(rows.begin[i]) + ", " + std::to_string(rows.end[i]) + ") " +
                      std::to_string(rows.flags[i]));
    return all;
  }
};

}  // namespace

TEST(records_that_begin_in_the_session_are_read) {
  for (const bool include_open : {false, true}) {
    Records records;
    records.record(kRange, 900, 999);
    records.record(kRange, 901, 1000);  // ended as the session began
    records.record(kRange, 902, 1001);
    records.record(kRange, 903, 0);
    records.record(kRange, 904, 850);  // an end before its begin is of the slot's earlier use
    records.record(kMark, 905, 0);
    records.record(kCounter, 906, 1);
    records.record(kAsync, 907, 0);
    records.record(kWithArgs, 908, 0, fp::RecordTag::detailed);
    records.unit(1, 0, 0);
    records.unit(0, 0, 0);
    records.with_args(kWithArgs, 909, 1000, 0, "");
    records.record(kRange, 1000, 1000);
    records.record(kRange, 1001, 1000);
    records.record(kRange, 1999, 2500);
    records.record(kRange, 2000, 2001);
    records.record(kMark, 2000, 0);
    Read read(include_open);
    read.read(records);
    Lines expected;
    if (include_open)
      expected = {"range [902, 1001) 16", "range [903, 0) 16", "range [904, 0) 16",
                  "with arguments [908, 0) 48"};
    for (const char* line : {"range [1000, 1000) 0", "range [1001, 0) 0", "range [1999, 2500) 0"})
      expected.push_back(line);
    CHECK_EQ(read.text(), expected);
    CHECK_EQ(read.drain.row_count(), expected.size());
    CHECK_EQ(read.drain.rows().in_flight, 0);
  }
}

TEST(enclosing_ranges_of_a_thread_local_session_are_those_of_its_thread) {
  for (const uint32_t own : {7u, 8u}) {
    Records records;
    records.record(kRange, 900, 0);
    Read read(true, own);
    read.snapshot.local = true;
    read.read(records, 7);
    CHECK_EQ(read.drain.row_count(), own == 7 ? 1 : 0);
  }
}

TEST(membership_decides_what_a_thread_local_session_has) {
  Records records;
  records.record(kRange, 1001, 1002);
  records.record(kMembership, 1003, 1 << 1 | 1);  // enters session 1
  records.record(kRange, 1004, 1005);
  records.record(kMembership, 1006, 2 << 1);  // leaves another session
  records.with_args(kWithArgs, 1007, 1008, 0, "");
  records.record(kTask, 1009, fp::TaskWord{5, 0, false}.packed());
  records.record(kMembership, 1010, 1 << 1);  // leaves session 1
  records.record(kRange, 1011, 1012);
  records.record(kTask, 1013, fp::TaskWord{6, 0, false}.packed());
  Read read;
  read.snapshot.local = true;
  read.read(records);
  CHECK_EQ(read.text(), (Lines{"range [1004, 1005) 0", "with arguments [1007, 1008) 0"}));
  CHECK(read.rows().switches[0].in_session && !read.rows().switches[1].in_session);
  // Each chunk says anew whose its records are.
  Records more;
  more.record(kRange, 1020, 1021);
  read.read(more);
  CHECK_EQ(read.drain.row_count(), 2);
}

TEST(categories_select_records) {
  Records records;
  records.record(kRange, 1001, 1002);
  records.record(kOp, 1003, 1004);
  records.record(kCounter, 1005, 1);
  records.record(kTask, 1006, fp::TaskWord{5, 0, false}.packed());
  records.end(kRange, fp::RecordTag::late, 1001, 1010);
  records.end(kOp, fp::RecordTag::late, 1003, 1011);
  Read read;
  read.snapshot.mask = fp::category::op;
  read.read(records);
  CHECK_EQ(read.text(), (Lines{"op [1003, 1004) 0"}));
  CHECK_EQ(read.drain.rows().ends.size(), 1);
  CHECK_EQ(read.drain.rows().ends[0].begin, 1003);
  CHECK(read.rows().switches.empty());
}

TEST(each_kind_has_its_words) {
  Records records;
  records.with_args(kWithArgs, 1001, 1002, 11, "first");
  records.with_args(kAsyncWithArgs, 1003, 1004, 12, "second");
  records.with_args(kMarkWithArgs, 1005, 0, 13, "first again");
  records.record(kCounter, 1006, 14);
  records.record(kFlowBegin, 1007, 15);
  records.record(kFlowEnd, 1008, 16);
  records.record(kMark, 1009, 99);
  Read read;
  read.read(records);
  CHECK_EQ(read.text(),
           (Lines{"with arguments [1001, 1002) 0", "async with arguments [1003, 0) 0",
                  "mark with arguments [1005, 1005) 0", "counter [1006, 1006) 0",
                  "flow begin [1007, 1007) 0", "flow end [1008, 1008) 0", "mark [1009, 1009) 0"}));
  for (size_t row = 0; row < 3; ++row) {
    CHECK_EQ(read.word(row, 0), 11 + row);
    CHECK_EQ(read.word(row, 1), row);  // index of the text
  }
  for (size_t row = 3; row < 6; ++row) CHECK_EQ(read.word(row, 0), 11 + row);
  CHECK_EQ(read.rows().payload[6], fp::kNoPayload);
  CHECK_EQ(read.drain.rows().payload_words.size(), 9);
  CHECK(read.drain.rows().table.strings ==
        (std::vector<std::string>{"first", "second", "first again"}));
  CHECK(read.rows().kind[1] == fp::EventKind::async_range);
}

TEST(memory_reports_have_a_site_for_each_device) {
  fp::Site memory = make(fp::SiteKind::memory, "memory");
  fp::Site failed = make(fp::SiteKind::out_of_memory, "out of memory");
  memory.arg_units = failed.arg_units = 1;
  Records records;
  constexpr uint64_t reserved = (uint64_t{1} << 48) - 1, gpu_2 = 0x0201;
  records.record(memory, 1001, 0x1000);
  records.unit(64, 65, reserved | gpu_2 << 48);
  records.record(memory, 1002, 0x2000);
  records.unit(static_cast<uint64_t>(-64), 1, 2 | uint64_t{0xFF00} << 48);
  records.record(failed, 1003, 4096);
  records.unit(66, 67, gpu_2 << 48);
  records.record(memory, 1004, 0x3000);
  records.unit(1, 2, 3 | gpu_2 << 48);
  Read read;
  read.read(records);
  CHECK_EQ(read.text(), (Lines{"memory [1001, 1001) 0", "memory [1002, 1002) 0",
                               "out of memory [1003, 1003) 0", "memory [1004, 1004) 0"}));
  CHECK_EQ(read.word(0, 0), 0x1000);
  CHECK_EQ(read.word(0, 1), 64);
  CHECK_EQ(read.word(0, 2), 65);
  CHECK_EQ(read.word(0, 3), reserved);
  CHECK_EQ(read.word(2, 0), 4096);
  CHECK_EQ(read.word(2, 1), 66);
  CHECK_EQ(read.word(2, 2), 67);
  CHECK_EQ(read.drain.rows().payload_words.size(), 15);  // 4 + 4 + 3 + 4
  const std::vector<fp::SiteInfo>& sites = read.drain.rows().table.sites;
  CHECK_EQ(sites.size(), 3);
  CHECK(sites[0].device_type == 1 && sites[0].device_index == 2);
  CHECK(sites[1].device_type == 0 && sites[1].device_index == -1);
  CHECK(sites[2].device_type == 1 && sites[2].device_index == 2);
  CHECK_EQ(read.rows().site[3], read.rows().site[0]);
}

TEST(appended_ends_are_kept_apart) {
  fp::Site end_only = make(fp::SiteKind::async_range, "end only");
  end_only.flags = fp::site_flag::end_only;
  for (const bool include_open : {false, true}) {
    Records records;
    records.end(kRange, fp::RecordTag::late, 999, 1500);
    records.end(kRange, fp::RecordTag::cross_thread_end, 1000, 1501);
    records.end(end_only, fp::RecordTag::async_end, 1300, 2500);
    Read read(include_open);
    read.read(records);
    CHECK_EQ(read.drain.row_count(), 0);
    const std::vector<fp::EndRecord>& ends = read.drain.rows().ends;
    CHECK_EQ(ends.size(), include_open ? 3 : 2);
    const fp::EndRecord& first = ends[ends.size() - 2];
    CHECK(first.tag == fp::RecordTag::cross_thread_end && !first.end_only);
    CHECK(first.begin == 1000 && first.end == 1501);
    CHECK(first.origin_track == 3 && first.ending_track == 4);
    const fp::EndRecord& last = ends.back();
    CHECK(last.tag == fp::RecordTag::async_end && last.end_only);
    CHECK_EQ(read.drain.rows().table.sites[last.site].name, "end only");
  }
}

TEST(task_switches_are_kept_apart_also_those_before_the_session) {
  Records records;
  const uint64_t word = fp::TaskWord{5, 6, false}.packed();
  records.record(kTask, 200, word);
  records.record(kTask, 1999, word);
  records.record(kTask, 2000, word);
  Read read;
  read.read(records);
  CHECK_EQ(read.drain.row_count(), 0);
  const std::vector<fp::TaskSwitch>& switches = read.rows().switches;
  CHECK_EQ(switches.size(), 2);
  CHECK(switches[0].at == 200 && switches[1].at == 1999);
  CHECK(switches[0].word == word && switches[0].in_session);
  CHECK_EQ(read.drain.rows().task_names.sites.size(), 1);
  CHECK(read.drain.rows().table.sites.empty());
}

TEST(details_refer_to_texts_stacks_and_shared_inputs) {
  using fp::DetailType;
  const char* const json = "{\"key\":1}";
  Records records;
  for (uint64_t i = 0; i < 2; ++i) {
    // The slot, its arguments, a header, and blocks of 2, 1, 1, 0 and 3 words.
    records.record(kWithArgs, 1100 + i, 1200, fp::RecordTag::detailed);
    records.unit(1, reinterpret_cast<uintptr_t>("text"), 0);
    const uint64_t header = uint64_t{0xABC} << 32 | 12;
    records.unit(header, fp::detail_block_word(DetailType::cpp_stack, 2), 0x10);
    records.unit(0x20, fp::detail_block_word(DetailType::json, 1),
                 reinterpret_cast<uintptr_t>(json));
    records.unit(fp::detail_block_word(DetailType::python_stack, 1), 777,
                 fp::detail_block_word(DetailType::modules, 0));
    records.unit(fp::detail_block_word(DetailType::op_inputs, 3), 1, 2);
    records.unit(3, 0, 0);
  }
  Read read;
  read.read(records);
  CHECK_EQ(read.text(),
           (Lines{"with arguments [1100, 1200) 32", "with arguments [1101, 1200) 32"}));
  const fp::SiteTable& table = read.drain.rows().table;
  CHECK(table.strings == (std::vector<std::string>{json, "", "text"}));
  CHECK(table.python_stacks == (std::vector<std::pair<uint64_t, uint32_t>>{{777, 1}}));
  // The inputs come once, before the rows that refer to them: 4 words at 0.
  const fp::Column<uint64_t>& words = read.drain.rows().payload_words;
  CHECK_EQ(words[0], fp::detail_block_word(DetailType::op_inputs, 3));
  CHECK_EQ(words[3], 3);
  CHECK_EQ(words.size(), 4 + 2 * 12);
  for (size_t row = 0; row < 2; ++row) {
    const std::vector<uint64_t> expected{1,
                                         2,
                                         uint64_t{0xABC} << 32 | 9,
                                         fp::detail_block_word(DetailType::cpp_stack, 2),
                                         0x10,
                                         0x20,
                                         fp::detail_block_word(DetailType::json, 1),
                                         0,
                                         fp::detail_block_word(DetailType::python_stack, 1),
                                         1,
                                         fp::detail_block_word(DetailType::modules, 0),
                                         fp::detail_block_word(DetailType::op_inputs_ref, 0, 0)};
    for (size_t i = 0; i < expected.size(); ++i) CHECK_EQ(read.word(row, i), expected[i]);
  }
}

TEST(a_chunk_without_open_ranges_is_remembered) {
  const auto quiet = [](auto&& fill) {
    Records records;
    records.chunk()->gen = 9;
    fill(records);
    Read read;
    read.read(records);
    return records.chunk()->quiet_gen == 9;
  };
  CHECK(quiet([](Records& r) { r.record(kRange, 1001, 1002); }));
  CHECK(!quiet([](Records& r) { r.record(kRange, 1001, 0); }));
  CHECK(!quiet([](Records& r) {
    r.record(kRange, 1001, 0);
    r.record(kRange, 1002, 1003);
  }));
  CHECK(quiet([](Records& r) { r.with_args(kWithArgs, 1001, 1001, 0, ""); }));
  CHECK(!quiet([](Records& r) { r.with_args(kWithArgs, 1001, 0, 0, ""); }));
  CHECK(quiet([](Records& r) { r.with_args(kAsyncWithArgs, 1001, 0, 0, ""); }));
  CHECK(quiet([](Records& r) { r.record(kMark, 1001, 0); }));
  CHECK(quiet([](Records& r) { r.end(kRange, fp::RecordTag::late, 1005, 1001); }));
  for (const uint64_t end : {0, 1002})
    CHECK_EQ(quiet([end](Records& r) {
               r.record(kRange, 1001, end, fp::RecordTag::detailed);
               r.unit(0, 0, 0);
             }),
             end != 0);
}

TEST(tracks_keep_their_order_and_their_latest_description) {
  Read read;
  for (const uint32_t id : {5u, 3u, 5u}) {
    Records records;
    records.record(kRange, 1000 + id, 1100);
    read.read(records, id);
  }
  CHECK_EQ(read.drain.rows().tracks.size(), 2);
  CHECK_EQ(read.rows(0).info.id, 5);
  CHECK_EQ(read.rows(0).size(), 2);
  CHECK_EQ(read.rows(1).info.id, 3);
  CHECK_EQ(read.drain.row_count(), 3);
}

TEST(a_chunk_buffer_is_aligned_and_blank) {
  const fp::ChunkBuffer memory = fp::make_chunk_buffer();
  CHECK_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 65536, 0);
  CHECK(memory->magic == 0 && memory->gen == 0 && memory->open_ticks == 0);
}
