// SPDX-License-Identifier: Apache-2.0
// Task tracks of hand-made switches: which rows a task gets, its own row and its suspensions, at
// the bounds of the session too.

#include "check.hpp"
#include "drained_rows.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/fastprof.hpp"

using namespace drained_rows;

TEST(a_task_has_its_steps_and_suspensions) {
  Drained drained;
  drained.track(1);
  drained.row("thread's", 1050, 1060);
  drained.row("of a", 1110, 1120);
  drained.row("at the switch", 1200, 1210);
  drained.row("of none", 1310, 1320);
  drained.row("of a again", 1410, 1420);
  drained.row("behind a", 1510, 1520);
  drained.task(1100, 10, "a", 3);
  drained.task(1200, 11, "b");
  drained.task(1250, 11, "b, named late");  // the same task: the last name counts
  drained.task(1300, 0);
  drained.task(1400, 10, "a", 3);
  drained.task(1500, 10, "a", 3, true);
  drained.task(1505, 0);
  const fp::Capture capture = drained.assemble();
  fp::validate_capture(capture);
  CHECK_EQ(lines(capture), (Lines{
                               "t1: thread's [1050, 1060) < 1",
                               "t1: of none [1310, 1320) < 1",
                               "t1: behind a [1510, 1520) < 1",
                               "a (Task-3): a [1100, 1500) < 1",
                               "a (Task-3): of a [1110, 1120) <a 1",
                               "a (Task-3): await [1200, 1400) <a 1",
                               "a (Task-3): of a again [1410, 1420) <a 1",
                               "b, named late: b, named late [1200, 2000) < 0",
                               "b, named late: at the switch [1200, 1210) <b, named late 1",
                               "b, named late: await [1300, 2000) <b, named late 0",
                           }));
  CHECK_EQ(capture.tracks.size(), 3);
  CHECK_EQ(capture.tracks[1].id, 10);
  CHECK_EQ(capture.tracks[1].thread_id, 1);
  CHECK_EQ(capture.tracks[1].tid, 101);
  CHECK_EQ(capture.tracks[1].pid, 42);
  CHECK(!capture.tracks[1].alive && capture.tracks[2].alive);
  const fp::SiteInfo& own = capture.sites[capture.site[3]];
  CHECK(own.category == fp::kTaskCategory && own.kind == fp::EventKind::range);
  const fp::SiteInfo& await = capture.sites[capture.site[5]];
  CHECK(await.category == fp::kAwaitCategory && await.mask == fp::category::task);
  CHECK_EQ(capture.site[5], capture.site[9]);  // one site for all
}

TEST(steps_are_cut_at_the_bounds_of_the_session) {
  Drained drained;
  drained.snapshot.tasks_since = 500;
  drained.track(1);
  drained.row("enclosing", 900, 1300, fp::EventKind::range, fp::event_flag::enclosing);
  drained.row("inside", 1310, 1320);
  drained.row("to the stop", 1900, 0);
  drained.task(400, 9, "too early");
  drained.task(500, 10, "a");
  drained.task(700, 12, "over before");
  drained.task(800, 12, "over before", 0, true);
  drained.task(850, 10, "a");
  drained.task(1500, 0);
  drained.task(1600, 13, "to the end");
  drained.task(2000, 14, "too late");
  const fp::Capture capture = drained.assemble();
  CHECK_EQ(lines(capture), (Lines{
                               "a: enclosing [900, 1300) < 17",
                               "a: a [1000, 2000) < 0",
                               "a: inside [1310, 1320) <a 1",
                               "a: await [1500, 2000) <a 0",
                               "to the end: to the end [1600, 2000) < 0",
                               "to the end: to the stop [1900, 2000) <to the end 0",
                           }));
  // A thread without rows of its own is there for its tasks.
  CHECK_EQ(capture.tracks[0].name, "t1");
}

TEST(a_task_of_several_threads_is_put_in_order) {
  Drained drained;
  drained.track(1);
  drained.row("third", 1310, 1320);
  drained.row("moved", 1330, 0);
  drained.task(1300, 10, "a");
  drained.task(1400, 0);
  drained.track(2);
  drained.row("first", 1110, 1120);
  drained.row("also moved", 1130, 0);
  drained.row("last", 1410, 1420);
  drained.task(1100, 10, "a");
  drained.task(1200, 0);
  drained.task(1390, 10, "a");  // stamps of two threads may be a little apart
  drained.task(1500, 10, "a", 0, true);
  drained.end("moved", 1, 2, 1330, 1340);
  drained.end("also moved", 2, 1, 1130, 1140);
  const fp::Capture capture = drained.assemble();
  fp::validate_capture(capture);
  CHECK_EQ(lines(capture), (Lines{
                               "a: a [1100, 1500) < 1",
                               "a: first [1110, 1120) <a 1",
                               "a: also moved [1130, 1140) <a 3",
                               "a: await [1200, 1300) <a 1",
                               "a: third [1310, 1320) <a 1",
                               "a: moved [1330, 1340) <a 3",
                               "a: last [1410, 1420) <a 1",
                           }));
  CHECK_EQ(capture.cross_thread_end_row[0], 2);
  CHECK_EQ(capture.cross_thread_end_row[1], 5);
  CHECK_EQ(capture.tracks[capture.cross_thread_end_track[0]].id, 1);
  CHECK_EQ(capture.tracks[capture.cross_thread_end_track[1]].id, 2);
}
