// SPDX-License-Identifier: Apache-2.0
// assemble(): rows with exact stamps become a capture. What is finished, how rows nest, ends that
// were recorded apart, ends without a begin, and the order of tracks.
#include <unistd.h>

#include <string>
#include <vector>

#include "check.hpp"
#include "drained_rows.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/fastprof.hpp"
#include "recorder_checks.hpp"

using namespace drained_rows;
using recorder_checks::dropped;

TEST(what_ends_by_the_stop_is_finished) {
  Drained drained;
  drained.track(1);
  drained.row("before", 990, 1500);
  drained.row("to the end", 1000, 2000);
  drained.row("beyond", 1001, 2001);
  drained.row("open", 1002, 0);
  drained.row("mark", 1003, 1003, fp::EventKind::mark);
  drained.row("async", 1004, 1010, fp::EventKind::async_range);
  drained.row("open async", 1005, 0, fp::EventKind::async_range);
  drained.row("short", 1006, 1006);
  drained.row("crossed", 1007, 1008, fp::EventKind::range, fp::event_flag::cross_thread_end);
  drained.row("last", 1009, 1011);
  const fp::Capture capture = drained.assemble();
  CHECK_EQ(lines(capture), (Lines{
                               "t1: before [990, 1500) < 1",
                               "t1: to the end [1000, 2000) < 1",
                               "t1: beyond [1001, 2000) <to the end 0",
                               "t1: open [1002, 2000) <beyond 0",
                               "t1: mark [1003, 1003) <open 1",
                               "t1: async [1004, 1010) <open 1",
                               "t1: open async [1005, 2000) <open 0",
                               "t1: short [1006, 1006) <open 1",
                               "t1: crossed [1007, 1008) <open 3",
                               "t1: last [1009, 1011) <open 1",
                           }));
  CHECK_EQ(capture.t0_ns, 1000);
  CHECK_EQ(capture.t1_ns, 2000);
  CHECK_EQ(capture.pid, ::getpid());
  CHECK(!capture.process_name.empty());
  CHECK_EQ(capture.clamped, 0);
  CHECK(capture.exact_stop);
}

TEST(what_is_never_left_ends_with_the_range_around_it) {
  Drained drained;
  drained.track(1);
  drained.row("outer", 1000, 1100);
  drained.row("never left", 1010, 0);
  drained.row("inside", 1020, 1030);
  drained.row("never either", 1040, 0);
  drained.row("after", 1200, 1300);
  CHECK_EQ(lines(drained.assemble()), (Lines{
                                          "t1: outer [1000, 1100) < 1",
                                          "t1: never left [1010, 1100) <outer 0",
                                          "t1: inside [1020, 1030) <never left 1",
                                          "t1: never either [1040, 1100) <never left 0",
                                          "t1: after [1200, 1300) < 1",
                                      }));
}

TEST(an_end_before_its_begin_is_clamped) {
  Drained drained;
  drained.track(1);
  drained.row("backwards", 1100, 1050);
  drained.row("forwards", 1200, 1250);
  drained.snapshot.exact = false;
  const fp::Capture capture = drained.assemble();
  CHECK_EQ(lines(capture),
           (Lines{"t1: backwards [1100, 1100) < 9", "t1: forwards [1200, 1250) < 1"}));
  CHECK_EQ(capture.clamped, 1);
  CHECK(!capture.exact_stop);
}

TEST(ranges_across_a_suspend_are_marked) {
  Drained drained;
  drained.snapshot.knots = {{0, 0, 0, 0}, {1500, 1500, 0, 0}, {3000, 3000, 0, 2000000}};
  drained.snapshot.unix_offset_ns = 5;
  drained.track(1);
  drained.row("around", 1400, 3000);
  drained.row("ahead", 1410, 1420);
  drained.snapshot.t1 = 3000;
  const fp::Capture capture = drained.assemble();
  CHECK_EQ(lines(capture),
           (Lines{"t1: around [1405, 3005) < 5", "t1: ahead [1415, 1425) <around 1"}));
  CHECK_EQ(capture.t0_ns, 1005);
  CHECK_EQ(capture.t1_ns, 3005);
}

TEST(rows_are_sorted_by_begin_and_tracks_by_id) {
  Drained drained;
  drained.track(5);
  drained.row("b", 1200, 1300);
  drained.row("a", 1100, 1400);
  drained.track(9);
  drained.rows.tracks.back().info.device_index = 0;
  drained.row("kernel", 1100, 2500);
  drained.track(7);  // no rows: left out
  drained.track(2);
  drained.row("c", 1200, 1300);
  drained.row("d", 1200, 1300);  // equal stamps keep their order
  const fp::Capture capture = drained.assemble();
  // Work of a device may end after the stop, and does not nest.
  CHECK_EQ(lines(capture),
           (Lines{"t2: c [1200, 1300) < 1", "t2: d [1200, 1300) <c 1", "t5: a [1100, 1400) < 1",
                  "t5: b [1200, 1300) <a 1", "t9: kernel [1100, 2500) < 1"}));
  CHECK_EQ(capture.tracks.size(), 3);
  fp::validate_capture(capture);
}

TEST(ends_that_were_recorded_apart_are_joined) {
  Drained drained;
  drained.track(1);
  drained.row("late", 1100, 0);
  drained.row("moved", 1200, 0);
  drained.row("moved twice", 1300, 0);
  drained.row("skewed", 1400, 0);
  drained.row("ends with the stop", 1500, 0);
  drained.row("ends behind the stop", 1600, 0);
  drained.row("of an unknown thread", 1700, 0);
  drained.track(2);
  drained.row("there", 1250, 1260);
  drained.track(3);  // no rows, but it ended a range
  drained.end("late", 1, 1, 1100, 1110);
  drained.end("moved", 1, 2, 1200, 1210);
  drained.end("moved twice", 1, 3, 1300, 1310);
  drained.end("moved twice", 1, 2, 1300, 1320);
  drained.end("skewed", 1, 2, 1400, 1399);
  drained.end("ends with the stop", 1, 2, 1500, 2000);
  drained.end("ends behind the stop", 1, 2, 1600, 2001);
  drained.end("of an unknown thread", 1, 77, 1700, 1710);
  const fp::Capture capture = drained.assemble();
  CHECK_EQ(lines(capture), (Lines{
                               "t1: late [1100, 1110) < 1",
                               "t1: moved [1200, 1210) < 3",
                               "t1: moved twice [1300, 1320) < 3",
                               "t1: skewed [1400, 1400) < 3",
                               "t1: ends with the stop [1500, 2000) < 3",
                               "t1: ends behind the stop [1600, 2000) < 0",
                               "t1: of an unknown thread [1700, 1710) <ends behind the stop 3",
                               "t2: there [1250, 1260) < 1",
                           }));
  Lines ended_on;
  for (size_t i = 0; i < capture.cross_thread_end_row.size(); ++i)
    ended_on.push_back(std::to_string(capture.cross_thread_end_row[i]) + " " +
                       capture.tracks[capture.cross_thread_end_track[i]].name);
  // The first of two ends says which thread it was.
  CHECK_EQ(ended_on, (Lines{"1 t2", "2 t3", "3 t2", "4 t2", "6 thread 77"}));
  CHECK_EQ(capture.tracks[2].name, "t3");
  CHECK_EQ(capture.tracks[2].tid, 103);
  CHECK_EQ(capture.tracks[3].id, 77);
  CHECK_EQ(capture.tracks[3].pid, ::getpid());
  fp::validate_capture(capture);
}

TEST(what_an_appended_end_ended_before_the_session_is_dropped) {
  Drained drained;
  drained.track(1);
  drained.row("over", 900, 0, fp::EventKind::range, fp::event_flag::enclosing);
  drained.row("over at the start", 910, 0, fp::EventKind::range, fp::event_flag::enclosing);
  drained.row("enclosing", 920, 0, fp::EventKind::range, fp::event_flag::enclosing);
  drained.row("at the start", 1000, 0);
  drained.track(2);
  drained.row("of another thread", 900, 0, fp::EventKind::range, fp::event_flag::enclosing);
  drained.end("over", 1, 1, 900, 950);
  drained.end("over at the start", 1, 1, 910, 1000);
  drained.end("enclosing", 1, 1, 920, 1001);
  drained.end("at the start", 1, 1, 1000, 1000);
  drained.end("of nothing", 1, 1, 905, 940);
  const fp::Capture capture = drained.assemble();
  CHECK_EQ(lines(capture),
           (Lines{"t1: enclosing [920, 1001) < 17", "t1: at the start [1000, 1000) <enclosing 1",
                  "t2: of another thread [900, 2000) < 16"}));
}

TEST(an_end_without_a_begin_gets_a_row) {
  for (const bool keeps : {true, false}) {
    Drained drained;
    drained.snapshot.keeps = keeps;
    const fp::DropCause cause = keeps ? fp::DropCause::bound : fp::DropCause::overwritten;
    drained.snapshot.dropped[static_cast<size_t>(cause)] = 5;
    drained.track(1);
    drained.row("known", 1100, 1900);
    drained.end("second", 1, 1, 1300, 1310);
    drained.end("first", 1, 1, 1200, 1210);
    drained.end("first", 1, 2, 1200, 1220);  // of the same range
    drained.end("known", 1, 1, 1100, 1800);
    drained.end("at the start", 1, 1, 1000, 1001);
    drained.end("before", 1, 1, 999, 1400);
    drained.end("at the stop", 1, 1, 2000, 2001);
    drained.end("only an end", 1, 1, 1500, 1510, true);
    drained.end("elsewhere", 8, 8, 1400, 1410);
    drained.end("elsewhere", 8, 8, 1300, 1310);
    const fp::Capture capture = drained.assemble();
    CHECK_EQ(lines(capture), (Lines{
                                 "t1: at the start [1000, 1001) < 1",
                                 "t1: known [1100, 1800) < 1",
                                 "t1: first [1200, 1220) <known 3",
                                 "t1: second [1300, 1310) <known 1",
                                 "t1: only an end [1500, 1510) <known 17",
                                 "thread 8: elsewhere [1300, 1310) < 1",
                                 "thread 8: elsewhere [1400, 1410) < 1",
                             }));
    CHECK_EQ(dropped(capture, cause), 0);  // five of these had been counted as dropped
    CHECK_EQ(capture.dropped_total(), 0);
    CHECK_EQ(capture.tracks[1].id, 8);
    CHECK_EQ(capture.tracks[1].pid, ::getpid());
    CHECK(!capture.tracks[1].alive);
  }
}

TEST(ends_without_a_begin_lower_no_count_below_zero) {
  Drained drained;
  drained.snapshot.dropped[static_cast<size_t>(fp::DropCause::bound)] = 1;
  drained.track(1);
  drained.end("a", 1, 1, 1100, 1110);
  drained.end("b", 1, 1, 1200, 1210);
  CHECK_EQ(drained.assemble().dropped_total(), 0);
  Drained local;
  local.snapshot.local = true;
  local.track(1);
  local.end("a", 1, 1, 1100, 1110);
  CHECK_EQ(local.assemble().size(), 0);
}

TEST(what_a_drain_could_not_read_is_counted) {
  Drained drained;
  drained.rows.in_flight = 3;
  drained.rows.refused = 4;
  drained.snapshot.dropped[static_cast<size_t>(fp::DropCause::in_flight)] = 10;
  drained.snapshot.dropped[static_cast<size_t>(fp::DropCause::bound)] = 20;
  drained.snapshot.dropped[static_cast<size_t>(fp::DropCause::names)] = 1;
  const fp::Capture capture = drained.assemble();
  CHECK_EQ(dropped(capture, fp::DropCause::in_flight), 13);
  CHECK_EQ(dropped(capture, fp::DropCause::bound), 24);
  CHECK_EQ(dropped(capture, fp::DropCause::names), 1);
  CHECK_EQ(capture.tracks.size(), 0);
}
