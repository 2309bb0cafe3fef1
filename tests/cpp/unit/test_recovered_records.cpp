// SPDX-License-Identifier: Apache-2.0
// recover() of files made by hand: which session is read, tracks and chunks, and records that
// cannot be right.
#include <cstring>
#include <string>
#include <vector>

#include "backing_image.hpp"
#include "drained_rows.hpp"

using namespace recorder_checks;
using backing_file_checks::Folder;
using backing_image::Image;
using backing_image::SiteParts;
using drained_rows::Lines;
using drained_rows::lines;

namespace {

constexpr uint64_t kSite = 0x1000, kWithText = 0x2000, kUnknown = 0x3000;
constexpr uint64_t kText = 0x500, kStack = 99;

// A file with one chunk of track 1, thread "main", without records.
Image image() {
  Image made;
  made.site(kSite, SiteParts("plain"));
  made.site(kWithText, SiteParts("with text", {0, 4}));
  made.entries.text(fp::EntryType::text, kText, "known text");
  made.entries.text(fp::EntryType::stack, kStack, "inner\nouter");
  made.chunk(1, 0, "main");
  return made;
}

fp::Recovered recovered(const Image& image, const fp::RecoverOptions& options = {},
                        uint64_t size = 4 << 20) {
  const Folder folder;
  image.write(folder.file(), size);
  fp::Recovered found = fp::recover(folder.file(), options);
  fp::validate_capture(found.capture);
  return found;
}

// Rows that were read and chunks that were cut short, if `add` adds records behind a first one.
template <class Add>
std::string read_with(Add add) {
  Image made = image();
  made.record(kSite, 1001, 1002);
  add(made);
  const fp::Recovered found = recovered(made);
  return std::to_string(found.capture.size()) + " rows, " + std::to_string(found.unread_chunks) +
         " cut";
}

}  // namespace

TEST(a_file_says_what_its_header_says) {
  Image made = image();
  fp::BackingHeader& header = made.header;
  header.parent_pid = 11;
  header.process_start = 12;
  header.opened_monotonic_ns = 13;
  header.unix_offset_ns = 14;
  header.node_id = 15;
  header.fallback_slabs = 16;
  header.threads_outside = 17;
  header.names_lost = 18;
  std::strcpy(header.boot_id, "boot");
  std::strcpy(header.process_name, "process");
  made.entries.text(fp::EntryType::metadata, 0, std::string("key\0value", 9));
  made.entries.text(fp::EntryType::metadata, 0, std::string("counters\0first\nsecond\n", 22));
  made.sessions[0].dropped[3] = 9;
  made.record(kSite, 1001, 1002);
  const fp::Recovered found = recovered(made);
  CHECK_EQ(found.session_id, 5);
  CHECK(!found.ended);
  CHECK_EQ(found.parent_pid, 11);
  CHECK_EQ(found.process_start, 12);
  CHECK_EQ(found.opened_monotonic_ns, 13);
  CHECK_EQ(found.unix_offset_ns, 14);
  CHECK_EQ(found.capture.node_id, 15);
  CHECK_EQ(found.fallback_slabs, 16);
  CHECK_EQ(found.threads_outside, 17);
  CHECK_EQ(found.names_lost, 18);
  CHECK_EQ(found.boot_id, "boot");
  CHECK_EQ(found.capture.process_name, "process");
  CHECK_EQ(found.capture.pid, 77);
  CHECK_EQ(found.metadata.size(), 2);
  CHECK(found.metadata[0] == (std::pair<std::string, std::string>("key", "value")));
  CHECK(found.capture.counter_names == (std::vector<std::string>{"first", "second"}));
  CHECK_EQ(dropped(found.capture, fp::DropCause::reentrant), 9);
  CHECK_EQ(lines(found.capture), (Lines{"main: plain [1015, 1016) < 1"}));
  CHECK_EQ(found.capture.t0_ns, 1014);
  CHECK_EQ(found.capture.t1_ns, 1017);  // behind the last stamp
  const fp::TrackInfo& track = found.capture.tracks[0];
  CHECK(track.id == 1 && track.tid == 101 && track.pid == 77 && track.alive);
  CHECK_EQ(found.damaged, 0);
}

TEST(the_session_that_asked_for_the_file_is_read) {
  Image made = image();
  for (const uint64_t begin : {900, 1001, 1500, 2500, 3500}) made.record(kSite, begin, begin + 1);
  const auto session = [&made](size_t at, uint64_t id, uint64_t t0, uint64_t t1, uint8_t owner) {
    fp::FileSession& entry = made.sessions[at];
    entry.id = id;
    entry.t0 = t0;
    entry.t1 = t1;
    entry.mask = fp::category::all;
    entry.owner = owner;
  };
  session(0, 9, 800, 3000, 0);
  session(1, 8, 1000, 2000, 0);
  session(2, 7, 1400, 1600, 1);
  session(3, 6, 1501, UINT64_MAX, 1);
  session(63, 10, 3000, 2900, 0);
  const auto read = [&made](uint64_t id) {
    fp::RecoverOptions options;
    options.session_id = id;
    return recovered(made, options);
  };
  fp::Recovered found = read(0);
  CHECK_EQ(found.session_id, 6);  // of two that claim to, the older one
  CHECK(!found.ended);
  CHECK_EQ(found.capture.size(), 2);
  found = read(7);
  CHECK(found.ended && found.session_id == 7 && found.capture.size() == 1);
  CHECK(found.capture.t0_ns == 1400 && found.capture.t1_ns == 1600);
  CHECK_EQ(read(8).capture.size(), 2);
  CHECK_EQ(read(9).capture.size(), 4);
  found = read(10);  // it ended before it began
  CHECK(found.capture.t0_ns == 3000 && found.capture.t1_ns == 3000);
  CHECK_EQ(found.capture.size(), 0);
  CHECK_THROWS(fp::ValueError, read(11));
  made.sessions[2].id = made.sessions[3].id = 0;
  CHECK_EQ(read(0).session_id, 8);
  for (fp::FileSession& each : made.sessions) each.id = 0;
  found = read(0);
  CHECK(found.session_id == 0 && found.capture.size() == 0 && !found.ended);
}

TEST(sessions_filter_by_category_and_thread) {
  Image made = image();
  made.sessions[0].policy = static_cast<uint8_t>(fp::OverflowPolicy::overwrite_oldest);
  made.sessions[0].dropped[0] = made.sessions[0].dropped[1] = 3;
  made.record(kSite, 1001, 1002);
  made.record(kSite, 1005, 1004, fp::RecordTag::late);  // of a range that was overwritten
  made.unit(1, 1, 1005);
  fp::Recovered found = recovered(made);
  CHECK_EQ(found.capture.size(), 2);
  CHECK_EQ(dropped(found.capture, fp::DropCause::bound), 3);
  CHECK_EQ(dropped(found.capture, fp::DropCause::overwritten), 2);
  made.sessions[0].local = 1;
  CHECK_EQ(recovered(made).capture.size(), 0);
  made.sessions[0].local = 0;
  made.sessions[0].mask = fp::category::op;
  CHECK_EQ(recovered(made).capture.size(), 0);
}

TEST(chunks_are_read_by_track_and_sequence) {
  Image made;
  made.site(kSite, SiteParts("plain"));
  const auto chunk = [&made](uint32_t track, uint64_t sequence, const char* thread,
                             uint64_t begin) -> fp::Chunk& {
    fp::Chunk& header = made.chunk(track, sequence, thread);
    made.record(kSite, begin, begin + 1);
    header.used_bytes = 24;
    return header;
  };
  chunk(2, 7, "renamed", 1300).place = fp::ChunkPlace::full;
  chunk(1, 0, "", 1200).place = fp::ChunkPlace::full;
  chunk(2, 3, "first name", 1100);
  chunk(3, 0, "another's label", 1400);
  chunk(4, 0, "", 1500).place = fp::ChunkPlace::free;    // not read
  chunk(5, 0, "", 1500).open_ticks = uint64_t{1} << 63;  // being handed out
  made.slab.labels[3].track_id = 9;
  const fp::Recovered found = recovered(made);
  CHECK_EQ(lines(found.capture),
           (Lines{"thread 1: plain [1200, 1201) < 1", "renamed: plain [1100, 1101) < 1",
                  "renamed: plain [1300, 1301) < 1", "thread 3: plain [1400, 1401) < 1"}));
  CHECK(!found.capture.tracks[0].alive && found.capture.tracks[1].alive);
  CHECK_EQ(found.damaged, 0);
  CHECK_EQ(found.unread_chunks, 0);
}

TEST(a_full_chunk_ends_where_it_says) {
  for (const bool full : {true, false}) {
    Image made = image();
    for (uint64_t i = 0; i < 4; ++i) made.record(kSite, 1001 + i, 1010);
    made.chunks[0].header.place = full ? fp::ChunkPlace::full : fp::ChunkPlace::current;
    made.chunks[0].header.used_bytes = 2 * 24;
    CHECK_EQ(recovered(made).capture.size(), full ? 2 : 4);
    made.chunks[0].header.used_bytes = 65408;  // all of it: unwritten slots end it
    CHECK_EQ(recovered(made).capture.size(), 4);
    made.chunks[0].header.used_bytes = UINT32_MAX;
    CHECK_EQ(recovered(made).capture.size(), 4);
  }
  Image made = image();  // as many records as there is room for
  for (uint64_t i = 0; i < 2725; ++i) made.record(kSite, 1001 + i, 1001 + i);
  const fp::Recovered found = recovered(made);
  CHECK_EQ(found.capture.size(), 2725);
  CHECK_EQ(found.unread_chunks, 0);
}

TEST(a_chunk_that_is_cut_off_is_counted) {
  Image made = image();
  made.record(kSite, 1001, 1002);
  made.chunk(1, 1);
  made.record(kSite, 1003, 1004);
  constexpr uint64_t second = (2 << 20) + 2 * 65536;
  CHECK_EQ(recovered(made, {}, second + 65536).capture.size(), 2);
  fp::Recovered found = recovered(made, {}, second + 65535);
  CHECK_EQ(found.unread_chunks, 1);
  CHECK_EQ(found.capture.size(), 1);
  found = recovered(made, {}, second + 127);  // not even its header
  CHECK_EQ(found.unread_chunks, 0);
  CHECK_EQ(found.capture.size(), 1);
  found = recovered(made, {}, (2 << 20) + 100);  // nor the slab's
  CHECK(found.unread_chunks == 0 && found.damaged == 0 && found.capture.size() == 0);
}

TEST(records_that_cannot_be_right_end_their_chunk) {
  using fp::DetailType;
  using fp::RecordTag;
  CHECK_EQ(read_with([](Image& i) { i.record(kSite, 1003, 1004); }), "2 rows, 0 cut");
  CHECK_EQ(read_with([](Image& i) { i.record(kUnknown, 1003, 1004); }), "1 rows, 1 cut");
  CHECK_EQ(read_with([](Image& i) {
             i.record(kUnknown, 1003, 1004);
             i.record(kSite, 1005, 1006);
             i.chunk(1, 1);  // a further chunk with the same unknown site
             i.record(kUnknown, 1003, 1004);
           }),
           "1 rows, 2 cut");
  CHECK_EQ(read_with([](Image& i) {
             i.record(kSite, 1003, 1004, RecordTag::detailed);
             i.unit(0, 0, 0);
           }),
           "2 rows, 0 cut");
  CHECK_EQ(read_with([](Image& i) {
             i.record(kSite, 1003, 1004, static_cast<RecordTag>(5));
             i.unit(0, 0, 0);
           }),
           "1 rows, 1 cut");
  // A slot that begins before the chunk was handed out is not written yet.
  CHECK_EQ(read_with([](Image& i) { i.record(kSite, backing_image::kOpened - 1, 1004); }),
           "1 rows, 0 cut");
  CHECK_EQ(read_with([](Image& i) {
             i.record(kSite, backing_image::kOpened, 1004);
             i.record(kSite, 1005, 1006);
           }),
           "2 rows, 0 cut");
}

TEST(records_that_do_not_fit_end_their_chunk) {
  using fp::RecordTag;
  // `units` at the end of a chunk, the first of them a record that claims to have three or more.
  const auto at_the_end = [](uint64_t units, auto&& add) {
    Image made = image();
    for (uint64_t i = 0; i < 2725 - units; ++i) made.record(kSite, 1001 + i, 9000);
    add(made);
    const fp::Recovered found = recovered(made);
    return static_cast<int64_t>(found.capture.size() + units) - 2725 +  // rows at the end
           10 * static_cast<int64_t>(found.unread_chunks);
  };
  const auto with_text = [](Image& i) { i.record(kWithText, 8000, 9000); };
  CHECK_EQ(at_the_end(2, with_text), 1);
  CHECK_EQ(at_the_end(1, with_text), 10);
  const auto ends = [](Image& i) { i.record(kSite, 8000, 1001, RecordTag::late); };
  CHECK_EQ(at_the_end(2, ends), 1);  // a row for its begin, which is missing on that track
  CHECK_EQ(at_the_end(1, ends), 10);
  // {slot} {arguments} {header, words...}: `words` words behind the header.
  const auto detailed = [](uint32_t words, fp::DetailType type = fp::DetailType::cpp_stack) {
    return [words, type](Image& i) {
      i.record(kWithText, 8000, 9000, RecordTag::detailed);
      i.unit(0, 0, 0);
      i.unit(words, fp::detail_block_word(type, words == 0 ? 0 : words - 1), 0);
    };
  };
  CHECK_EQ(at_the_end(3, detailed(0)), 1);
  CHECK_EQ(at_the_end(3, detailed(2)), 1);
  CHECK_EQ(at_the_end(3, detailed(3)), 10);
  CHECK_EQ(at_the_end(4, detailed(5)), 1);
  CHECK_EQ(at_the_end(4, detailed(6)), 10);
  const auto without_room = [](Image& i) {
    i.record(kWithText, 8000, 9000, RecordTag::detailed);
    i.unit(0, 0, 0);
  };
  CHECK_EQ(at_the_end(2, without_room), 10);
  // A block that claims more words than its record has.
  CHECK_EQ(at_the_end(4,
                      [](Image& i) {
                        i.record(kSite, 8000, 9000, RecordTag::detailed);
                        i.unit(2, fp::detail_block_word(fp::DetailType::cpp_stack, 2), 0);
                      }),
           10);
}

TEST(texts_and_stacks_are_those_of_the_file) {
  using fp::DetailType;
  Image made = image();
  const auto with_text = [&made](uint64_t begin, uint64_t text) {
    made.record(kWithText, begin, begin + 1);
    made.unit(7, text, 0);
  };
  with_text(1001, kText);
  with_text(1003, 0);
  with_text(1005, 0x600);
  made.record(kSite, 1007, 1008, fp::RecordTag::detailed);
  made.unit(8, fp::detail_block_word(DetailType::json, 1), kText);
  made.unit(fp::detail_block_word(DetailType::modules, 1), 0x601,
            fp::detail_block_word(DetailType::overload, 0));
  made.unit(fp::detail_block_word(DetailType::python_stack, 1), kStack,
            fp::detail_block_word(DetailType::op_inputs_ref, 0, 55));
  made.record(kSite, 1009, 1010, fp::RecordTag::detailed);
  made.unit(5, fp::detail_block_word(DetailType::python_stack, 1), kStack + 1);
  made.unit(fp::detail_block_word(DetailType::python_stack, 0),
            fp::detail_block_word(DetailType::cpp_stack, 1), 0x10);
  const fp::Recovered found = recovered(made);
  const fp::Capture& capture = found.capture;
  CHECK_EQ(capture.size(), 5);
  CHECK_EQ(found.unread_chunks, 0);
  CHECK_EQ(found.unknown_texts, 2);
  CHECK_EQ(found.python_stacks, 2);
  CHECK(capture.python_stacks.empty());
  const auto text_of = [&capture](size_t row) {
    return capture.strings[capture.payload_words[capture.payload[row] + 1]];
  };
  CHECK_EQ(capture.payload_words[capture.payload[0]], 7);
  CHECK_EQ(text_of(0), "known text");
  CHECK_EQ(text_of(1), "");
  CHECK_EQ(text_of(2), "<unknown text>");
  const auto block = [&capture](size_t row, DetailType type) {
    const fp::DetailSpan span = fp::find_detail_block(capture, row, type);
    return span.found && span.count != 0 ? capture.strings[span.words[0]] : std::string("none");
  };
  CHECK_EQ(block(3, DetailType::json), "known text");
  CHECK_EQ(block(3, DetailType::modules), "<unknown text>");
  CHECK_EQ(block(3, DetailType::overload), "none");
  CHECK_EQ(block(3, DetailType::python_stack), "inner\nouter");
  CHECK(fp::EventView(capture, 3).stack() == (std::vector<std::string>{"inner", "outer"}));
  CHECK(!fp::find_detail_block(capture, 4, DetailType::python_stack).found);
  CHECK_EQ(fp::EventView(capture, 4).cpp_stack().count, 1);
}

TEST(sites_are_those_of_the_file) {
  Image made;
  SiteParts parts("memory");
  parts.entry.kind = static_cast<uint8_t>(fp::SiteKind::memory);
  parts.entry.arg_units = 1;
  parts.entry.mask = fp::category::memory;
  parts.entry.scope = 1;
  parts.entry.line = 12;
  parts.entry.color = 13;
  made.site(kSite, parts);
  SiteParts other("other", {2});
  other.entry.device_type = 3;
  other.entry.device_index = 4;
  made.site(kWithText, SiteParts("of an unloaded library"));
  made.site(kWithText, other);  // the latest at an address counts
  made.chunk(1);
  made.record(kSite, 1001, 64);
  made.unit(1, 2, 3);
  made.record(kWithText, 1003, 1004);
  made.unit(fp::PayloadValue{}.word, 0, 0);
  const fp::Capture capture = recovered(made).capture;
  CHECK_EQ(capture.size(), 2);
  const fp::SiteInfo& memory = capture.sites[capture.site[0]];
  CHECK(memory.kind == fp::EventKind::memory && memory.mask == fp::category::memory);
  CHECK(memory.line == 12 && memory.color == 13 && static_cast<int>(memory.scope) == 1);
  CHECK(memory.category == "category" && memory.file == "file" && memory.function == "function");
  const fp::SiteInfo& second = capture.sites[capture.site[1]];
  CHECK(second.name == "other" && second.device_type == 3 && second.device_index == 4);
  CHECK(second.arg_names == (std::vector<std::string>{"a0"}));
  CHECK(second.arg_types == (std::vector<fp::ArgType>{fp::ArgType::float64}));
}
