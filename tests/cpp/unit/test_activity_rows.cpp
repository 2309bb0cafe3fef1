// SPDX-License-Identifier: Apache-2.0
// Activities with exact stamps become rows: which belong to a session, their arguments,
// correlations and texts.

#include <string>

#include "check.hpp"
#include "drained_rows.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/fastprof.hpp"

using namespace drained_rows;

namespace {

constexpr uint32_t kThread = 0, kOtherThread = 1, kQueue = 2;
constexpr uint32_t kCall = 0, kWork = 1, kAsync = 2;

// Calls on two threads (kernel ids 101 and 999), and work on a queue.
struct Fake {
  fp::Activities found;

  explicit Fake(const std::string& kind = "", int32_t device = 0) {
    found.places.resize(3);
    found.places[kThread].id = 101;
    found.places[kOtherThread].id = 999;
    found.places[kOtherThread].name = "other";
    found.places[kQueue].id = 7;
    found.places[kQueue].name = "queue" + kind;
    found.places[kQueue].device_index = device;
    found.places[kQueue].device_kind = kind;
    found.sites.resize(3);
    found.sites[kCall].name = "call" + kind;
    found.sites[kCall].mask = fp::category::runtime;
    found.sites[kWork].name = "work" + kind;
    found.sites[kWork].mask = fp::category::device;
    found.sites[kAsync].name = "reported" + kind;
    found.sites[kAsync].mask = fp::category::user;
    found.sites[kAsync].kind = fp::EventKind::async_range;
    for (size_t i = 0; i < 2; ++i) {
      found.sites[i].arg_names = {"bytes", "correlation"};
      found.sites[i].arg_types = {fp::ArgType::int64, fp::ArgType::int64};
    }
    found.texts = {"{\"first\":1}", "{\"second\":2}"};
  }
  fp::Activity& add(uint32_t site, uint32_t place, uint64_t begin, uint64_t end,
                    uint32_t correlation = 0) {
    fp::Activity row;
    row.begin = begin;
    row.end = end;
    row.correlation = correlation;
    row.site = site;
    row.place = place;
    row.words = found.words.size();
    found.words.push_back(50 + found.rows.size());
    found.words.push_back(correlation);
    found.rows.push_back(row);
    return found.rows.back();
  }
  fp::PlacedActivities placed(uint32_t first_id) const {
    fp::check_activities(found);
    return {found, {first_id, first_id + 1, first_id + 2}};
  }
};

uint64_t word_of_row(const fp::Capture& capture, size_t row, size_t word) {
  return capture.payload_words[capture.payload[row] + word];
}

}  // namespace

TEST(what_begins_in_the_session_belongs_to_it) {
  Drained drained;
  drained.track(1);
  drained.row("range", 1000, 1990);
  Fake fake;
  fake.add(kCall, kThread, 999, 1500, 1);
  fake.add(kWork, kQueue, 1500, 1510, 1);  // its call began before
  fake.add(kCall, kThread, 1000, 1001, 2);
  fake.add(kWork, kQueue, 2500, 2600, 2);  // its call began in the session
  fake.add(kWork, kQueue, 900, 910, 2);
  fake.add(kCall, kThread, 1999, 2100, 3);
  fake.add(kCall, kThread, 2000, 2100, 4);
  fake.add(kWork, kQueue, 1600, 1610, 4);  // its call began behind
  fake.add(kWork, kQueue, 999, 1100, 9);   // of no known call
  fake.add(kWork, kQueue, 1000, 1005, 9);
  fake.add(kWork, kQueue, 1999, 2300);
  fake.add(kWork, kQueue, 2000, 2300);
  fake.add(kWork, kQueue, 1700, 1650);  // ends before it begins
  const fp::Capture capture = drained.assemble({fake.placed(20)});
  fp::validate_capture(capture);
  CHECK_EQ(lines(capture), (Lines{
                               "t1: range [1000, 1990) < 1",
                               "t1: call [1000, 1001) <range 1",
                               "t1: call [1999, 2000) < 0",
                               "queue: work [900, 910) < 1",
                               "queue: work [1000, 1005) < 1",
                               "queue: work [1700, 1700) < 1",
                               "queue: work [1999, 2300) < 1",
                               "queue: work [2500, 2600) < 1",
                           }));
}

TEST(arguments_texts_and_correlations) {
  Drained drained;
  drained.track(1);
  drained.row("range", 1000, 1990);
  drained.rows.table.strings = {"of the drain"};
  Fake first, second("npu");
  first.add(kCall, kThread, 1100, 1110, 5).text = 1;
  first.add(kWork, kQueue, 1120, 1130, 5).text = 1;
  first.add(kWork, kQueue, 1140, 1150, 0).text = 0;
  first.add(kCall, kThread, 900, 910, 8);  // not in the session, but its number is taken
  first.add(kAsync, kThread, 1160, 1170);
  second.add(kCall, kThread, 1200, 1210, 2);
  second.add(kWork, kQueue, 1220, 1230, 2);
  Fake third("tpu");
  third.add(kCall, kThread, 1300, 1310, 1);
  first.found.dropped = 3;
  second.found.dropped = 4;
  const fp::Capture capture =
      drained.assemble({first.placed(20), second.placed(30), third.placed(40)});
  fp::validate_capture(capture);
  CHECK_EQ(lines(capture), (Lines{
                               "t1: range [1000, 1990) < 1",
                               "t1: call [1100, 1110) <range 33",
                               "t1: reported [1160, 1170) <range 1",
                               "t1: callnpu [1200, 1210) <range 1",
                               "t1: calltpu [1300, 1310) <range 1",
                               "queue: work [1120, 1130) < 33",
                               "queue: work [1140, 1150) < 33",
                               "queuenpu: worknpu [1220, 1230) < 1",
                           }));
  CHECK_EQ(word_of_row(capture, 1, 0), 50);
  CHECK_EQ(word_of_row(capture, 1, 1), 5);
  CHECK_EQ(capture.payload[2], fp::kNoPayload);  // neither arguments nor a text
  CHECK(capture.kind[2] == fp::EventKind::async_range);
  CHECK_EQ(word_of_row(capture, 5, 0), 51);
  CHECK_EQ(word_of_row(capture, 5, 1), 5);
  CHECK_EQ(word_of_row(capture, 6, 0), 52);
  CHECK_EQ(word_of_row(capture, 6, 1), 0);  // none stays none
  // Correlations of a further backend lie behind the largest of those before.
  CHECK_EQ(word_of_row(capture, 3, 1), 8 + 2);
  CHECK_EQ(word_of_row(capture, 7, 1), 8 + 2);
  CHECK_EQ(word_of_row(capture, 4, 1), 8 + 2 + 1);
  // Texts are appended once each: {header: 2 words, json block of 1 word, index}.
  CHECK_EQ(capture.strings.size(), 3);
  CHECK_EQ(capture.strings[1], "{\"second\":2}");
  CHECK_EQ(word_of_row(capture, 1, 2), 2);
  CHECK_EQ(word_of_row(capture, 1, 3), 7 + (1 << 16));
  CHECK_EQ(word_of_row(capture, 1, 4), 1);
  CHECK_EQ(word_of_row(capture, 5, 4), 1);
  CHECK_EQ(word_of_row(capture, 6, 4), 2);
  CHECK_EQ(capture.dropped_total(), 7);
  CHECK_EQ(capture.dropped[static_cast<size_t>(fp::DropCause::device)], 7);
}

TEST(ranges_are_annotated_on_request) {
  for (const bool annotates : {false, true}) {
    Drained drained;
    drained.track(1);
    drained.row("range", 1000, 1990);
    Fake fake;
    fake.add(kCall, kThread, 1100, 1110, 1);
    fake.add(kWork, kQueue, 1120, 1130, 1);
    fake.found.sites[kWork].category = "kernel";
    fake.found.annotates = annotates;
    const fp::Capture capture = drained.assemble({Fake().placed(10), fake.placed(20)});
    CHECK_EQ(capture.size(), annotates ? 4 : 3);
    CHECK_EQ(capture.device_links.empty(), false);
  }
}
