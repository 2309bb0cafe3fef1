// SPDX-License-Identifier: Apache-2.0
// Task switches: each task has a track of its own, with its ranges, its own row and its
// suspensions; under every overflow policy, on several threads, and in a backing file.
#include <thread>

#include "fastprof/recorder/hot_path/task_switch.hpp"
#include "fastprof/recover.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site named(const char* name) {
  fp::Site site = fp::task_switch_site;
  site.name = name;
  return site;
}
constexpr fp::Site site_a = named("a"), site_b = named("b");

struct TestTask {
  const fp::Site* site;
  fp::TaskWord word;

  explicit TestTask(const fp::Site& name, uint32_t number = 0)
      : site(&name), word{fp::new_task_id(), number, false} {}
  void resume() const { fp::record_task_switch(site, word); }
  void end() const {
    fp::TaskWord ended = word;
    ended.ended = true;
    fp::record_task_switch(site, ended);
  }
};
void leave() {
  fp::record_task_switch(&fp::task_switch_site, {});
}

// "track: name in parent" of each row, without suspensions.
std::vector<std::string> texts(const fp::Capture& capture) {
  std::vector<std::string> all;
  for (size_t row = 0; row < capture.size(); ++row) {
    if (capture.sites[capture.site[row]].category == fp::kAwaitCategory) continue;
    std::string text = name_of(capture, row);
    const fp::TrackInfo& track = capture.tracks[capture.track[row]];
    text = (track.is_task() ? track.name : "thread") + ": " + text;
    if (capture.parent[row] >= 0)
      text += " in " + name_of(capture, static_cast<size_t>(capture.parent[row]));
    all.push_back(text);
  }
  return all;
}

size_t count(const fp::Capture& capture, const std::string& category) {
  size_t found = 0;
  for (size_t row = 0; row < capture.size(); ++row)
    found += capture.sites[capture.site[row]].category == category ? 1u : 0u;
  return found;
}

}  // namespace

TEST(ranges_of_interleaved_tasks_nest_by_task) {
  const TestTask a(site_a), b(site_b, 12);
  Running session;
  static constexpr fp::Site whole = site_of_range("around");
  static constexpr fp::Site one = site_of_range("one");
  static constexpr fp::Site two = site_of_range("two");
  const fp::RangeHandle around = fp::begin_range(whole);
  a.resume();
  const fp::RangeHandle of_a = fp::begin_range(one);
  leave();
  b.resume();
  const fp::RangeHandle of_b = fp::begin_range(two);
  leave();
  a.resume();
  { FASTPROF_RANGE("inner"); }
  fp::end_range(of_a);
  a.end();
  leave();
  { FASTPROF_RANGE("of the thread"); }
  b.resume();
  fp::end_range(of_b);
  leave();
  fp::end_range(around);
  const fp::Capture& capture = session.stop();
  CHECK(texts(capture) ==
        (std::vector<std::string>{"thread: around", "thread: of the thread in around", "a: a",
                                  "a: one in a", "a: inner in one", "b (Task-12): b",
                                  "b (Task-12): two in b"}));
  CHECK_EQ(count(capture, fp::kAwaitCategory), 3);
  CHECK_EQ(capture.dropped_total(), 0);
  CHECK_EQ(capture.tracks.size(), 3);
  // Self time of a range includes its suspensions, in every answer.
  const fp::Column<int64_t> self_ns = fp::self_times_ns(capture);
  const fp::Summary summary = fp::summarise(capture);
  for (const fp::EventView event : session.events()) {
    CHECK_EQ(event.self_ns(), self_ns[event.row()]);
    if (const fp::SummaryRow* row = summary.find(event.name()))
      CHECK_EQ(event.self_ns(), row->self_ns);
    if (event.name() == "two") CHECK_EQ(event.self_ns(), event.duration_ns());
  }
  for (size_t track = 1; track < 3; ++track) {
    CHECK_EQ(capture.tracks[track].thread_id, capture.tracks[0].id);
    CHECK_EQ(capture.tracks[track].tid, capture.tracks[0].tid);
    CHECK_EQ(capture.tracks[track].id, (track == 1 ? a : b).word.id);
  }
  CHECK(!capture.tracks[1].alive && capture.tracks[2].alive);
  for (size_t row = 0; row < capture.size(); ++row) {
    if (capture.sites[capture.site[row]].category == fp::kAwaitCategory) {
      // The suspension of `a` lies in its range; the last one of `b` lasts until the stop.
      if (capture.tracks[capture.track[row]].name == "a")
        CHECK_EQ(name_of(capture, static_cast<size_t>(capture.parent[row])), "one");
    } else if (name_of(capture, row) == "b") {
      CHECK(!finished(capture, row));
    } else {
      CHECK(finished(capture, row));
    }
  }
}

TEST(a_task_that_ran_already_at_the_start_is_known) {
  const TestTask a(site_a);
  Running warm;
  { FASTPROF_RANGE("warm"); }
  a.resume();
  Running session;
  { FASTPROF_RANGE("in a"); }
  leave();
  { FASTPROF_RANGE("after"); }
  const fp::Capture& capture = session.stop();
  CHECK(texts(capture) == (std::vector<std::string>{"thread: after", "a: a", "a: in a in a"}));
  CHECK(capture.start_ns[1] >= capture.t0_ns);
  warm.stop();
}

TEST(tasks_of_earlier_sessions_name_nothing) {
  const TestTask a(site_a);
  Running first;
  a.resume();
  leave();
  first.stop();
  Running second;
  { FASTPROF_RANGE("only"); }
  const fp::Capture& capture = second.stop();
  CHECK(capture.sites.size() == 1 && capture.sites[0].name == "only");
}

TEST(sessions_without_the_category_see_threads_only) {
  const TestTask a(site_a);
  fp::SessionOptions options;
  options.categories = fp::category::all & ~fp::category::task;
  fp::Session plain(options), tasks;
  plain.start();
  tasks.start();
  a.resume();
  { FASTPROF_RANGE("in a"); }
  leave();
  CHECK(texts(tasks.stop()) == (std::vector<std::string>{"a: a", "a: in a in a"}));
  const fp::Capture& capture = plain.stop();
  CHECK(texts(capture) == std::vector<std::string>{"thread: in a"});
  CHECK_EQ(capture.tracks.size(), 1);
}

TEST(a_backing_file_has_the_tasks) {
  const std::string folder = fp::make_private_folder("fastprof-test-");
  const std::string path = folder + "/tasks";
  const TestTask a(site_a, 3), b(site_b);
  Running session(with(&Options::backing_file, path));
  a.resume();
  { FASTPROF_RANGE("in a"); }
  leave();
  b.resume();
  { FASTPROF_RANGE("in b"); }
  b.end();
  leave();
  a.resume();
  { FASTPROF_RANGE("in a again"); }
  leave();
  const fp::Recovered recovered = fp::recover(path);
  const fp::Capture& capture = session.stop();
  CHECK(texts(recovered.capture) == texts(capture));
  CHECK(texts(capture) ==
        (std::vector<std::string>{"a (Task-3): a", "a (Task-3): in a in a",
                                  "a (Task-3): in a again in a", "b: b", "b: in b in b"}));
  CHECK_EQ(recovered.damaged, 0);
  ::rmdir(folder.c_str());
}

TEST(a_thread_local_session_has_tasks_of_its_thread_only) {
  const TestTask a(site_a), b(site_b);
  fp::SessionOptions options;
  options.thread_local_only = true;
  fp::Session local(options), all;
  all.start();
  local.start();
  a.resume();
  { FASTPROF_RANGE("in a"); }
  leave();
  std::thread([&] {
    b.resume();
    { FASTPROF_RANGE("in b"); }
    leave();
  }).join();
  CHECK(texts(local.stop()) == (std::vector<std::string>{"a: a", "a: in a in a"}));
  CHECK(texts(all.stop()) ==
        (std::vector<std::string>{"a: a", "a: in a in a", "b: b", "b: in b in b"}));
}
