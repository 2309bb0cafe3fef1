// SPDX-License-Identifier: Apache-2.0
// Metal work in sessions: rows on the tracks of queues, linked to the ranges that launched them.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "../../doubles/metal/fake_platform.hpp"
#include "check.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/metal.hpp"

namespace {

namespace metal = fastprof::metal;
using fastprof::Activities;

// A fake whose clock is real, as the mapping to ticks needs it.
struct ClockedPlatform : fakes::FakePlatform {
  double host_time_s() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  }
};

struct Clocked {
  Clocked() : observed(std::make_shared<fastprof::MetalActivities>(platform)) {}
  double tick() { return platform.host_time_s(); }
  void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
  metal::BufferTimes times(double begin_s, double end_s, uint64_t buffer = 1) {
    metal::BufferTimes made;
    made.gpu_start_s = begin_s;
    made.gpu_end_s = end_s;
    made.kernel_start_s = begin_s - 0.001;
    made.kernel_end_s = begin_s;
    made.buffer = buffer;
    return made;
  }

  ClockedPlatform platform;
  std::shared_ptr<fastprof::MetalActivities> observed;
};

const int kernel = 0, second = 0;

metal::Work work_of(metal::WorkKind kind, const char* name, uint64_t bytes = 0) {
  metal::Work work;
  work.kind = kind;
  work.name = name;
  work.bytes = bytes;
  return work;
}

std::string name_of(const Activities& from, size_t row) {
  return from.sites[from.rows[row].site].name;
}

}  // namespace

TEST(work_is_below_the_range_that_launched_it) {
  Clocked clocked;
  const auto profiler = metal::Profiler::make(clocked.platform);
  profiler->set_observer(clocked.observed);
  CHECK(profiler->is_operation_profiling_enabled() && profiler->is_copy_profiling_enabled());
  clocked.platform.stream.made_queue.id = 77;
  clocked.platform.stream.made_queue.name = "main queue";
  const uint64_t collection = clocked.observed->open();
  fastprof::Session session;
  session.start();
  double begin_s = 0, end_s = 0;
  {
    FASTPROF_RANGE("step");
    profiler->begin_profile_kernel(&kernel, "add");
    clocked.pause(2);
    profiler->end_profile_kernel(&kernel);
    begin_s = clocked.tick();
    clocked.pause(4);
    end_s = clocked.tick();
    clocked.platform.stream.complete(clocked.times(begin_s, end_s));
  }
  clocked.pause(1);
  Activities got = clocked.observed->close(collection);
  CHECK_EQ(got.dropped, 0u);
  session.add_activities(std::move(got));
  const fastprof::Capture& capture = session.stop();
  size_t call = SIZE_MAX, work = SIZE_MAX, step = SIZE_MAX;
  for (size_t i = 0; i < capture.size(); ++i) {
    const std::string& name = capture.sites[capture.site[i]].name;
    if (name == "encode add") call = i;
    if (name == "add") work = i;
    if (name == "step") step = i;
  }
  CHECK(call != SIZE_MAX && work != SIZE_MAX && step != SIZE_MAX);
  const fastprof::TrackInfo& track = capture.tracks[capture.track[work]];
  CHECK_EQ(track.name, std::string("main queue"));
  // The clocks' mapping: the GPU ran for as long as the host's clock says. The readings' own errors
  // are microseconds; stamps that are not mapped would be off by a factor.
  const double ratio = static_cast<double>(capture.end_ns[work] - capture.start_ns[work]) /
                       ((end_s - begin_s) * 1e9);
  CHECK(ratio > 0.8 && ratio < 1.25);
  CHECK(capture.start_ns[work] >= capture.start_ns[step]);
  bool linked = false;
  for (const auto& link : capture.device_links)
    if (link.row == work)
      linked = static_cast<size_t>(link.range) == step && static_cast<size_t>(link.call) == call;
  CHECK(linked);
}

TEST(works_of_one_command_buffer_are_one_row) {
  Clocked clocked;
  const auto profiler = metal::Profiler::make(clocked.platform);
  profiler->set_observer(clocked.observed);
  const uint64_t collection = clocked.observed->open();
  profiler->begin_profile_kernel(&kernel, "one");
  profiler->end_profile_kernel(&kernel);
  profiler->begin_profile_kernel(&second, "two");
  profiler->end_profile_kernel(&second);
  // Its commit is no work beside them.
  CHECK(profiler->begin_command_buffer(clocked.platform.stream, "label") == nullptr);
  const double now = clocked.tick();
  clocked.platform.stream.complete(clocked.times(now, now + 0.001, 5));
  const Activities got = clocked.observed->close(collection);
  fastprof::check_activities(got);
  CHECK_EQ(got.rows.size(), 3u);
  CHECK_EQ(name_of(got, 0), std::string("encode one"));
  CHECK_EQ(name_of(got, 1), std::string("encode two"));
  CHECK_EQ(name_of(got, 2), std::string("2 operations"));
  CHECK_EQ(got.rows[2].correlation, got.rows[1].correlation);
  CHECK_EQ(got.texts.at(got.rows[2].text), std::string("{\"operations\":[\"one\",\"two\"]}"));
}

TEST(commits_copies_fallbacks_and_failures) {
  Clocked clocked;
  const auto profiler = metal::Profiler::make(clocked.platform);
  profiler->set_observer(clocked.observed);
  const uint64_t collection = clocked.observed->open();
  const auto commits = std::make_shared<metal::CommandBuffers>(profiler);
  const std::shared_ptr<void> commit = commits->committing(clocked.platform.stream, "training");
  CHECK(commit != nullptr);
  commits->committed(commit);
  metal::BufferTimes failed;
  failed.error = "out of memory";
  clocked.platform.stream.complete(failed);

  const metal::CopyEnd gpu{nullptr, nullptr, true}, cpu{nullptr, nullptr, false};
  clocked.platform.stream.made_queue.id = 3;
  const uint64_t copy = profiler->begin_profile_copy(cpu, gpu, 4096);
  profiler->end_profile_copy(copy, metal::SyncType::NONE);
  const double now = clocked.tick();
  clocked.platform.stream.complete(clocked.times(now, now + 0.002, 9));
  profiler->end_profile_copy(profiler->begin_profile_copy(gpu, cpu, 8, nullptr, false, false),
                             metal::SyncType::NONE);
  profiler->begin_profile_cpu_fallback("aten::sort", {});
  profiler->end_profile_cpu_fallback("aten::sort");
  commits->committed(commits->committing(clocked.platform.stream, ""));  // never completes

  uint64_t unfinished = 0;
  const Activities got = clocked.observed->close(collection, 0.01, &unfinished);
  fastprof::check_activities(got);
  CHECK_EQ(unfinished, 1u);
  CHECK_EQ(got.dropped, 1u);
  const char* names[] = {"MTLCommandBuffer commit", "training",
                         "blit copy CPU to MPS",    "CPU to MPS",
                         "memcpy MPS to CPU",       "CPU fallback: aten::sort",
                         "MTLCommandBuffer commit"};
  CHECK_EQ(got.rows.size(), 7u);
  for (size_t i = 0; i < 7; ++i) CHECK_EQ(name_of(got, i), std::string(names[i]));
  CHECK_EQ(got.texts.at(got.rows[1].text), std::string("{\"error\":\"out of memory\"}"));
  CHECK_EQ(got.rows[1].begin, got.rows[1].end);
  const fastprof::SiteInfo& site = got.sites[got.rows[3].site];
  CHECK_EQ(site.category, std::string("gpu_memcpy"));
  CHECK_EQ(got.words[got.rows[3].words + 4], 4096u);
  CHECK_EQ(got.places[got.rows[3].place].name, std::string("queue 2"));
  const metal::Statistics sums = profiler->statistics();
  CHECK_EQ(sums.operations.size(), 2u);
  CHECK_EQ(sums.operations[0].name, std::string("training"));
  CHECK_EQ(sums.operations[1].name, std::string("command buffer"));
  CHECK_EQ(sums.failed_count, 1u);
}

TEST(collections_overlap_and_nothing_is_kept_without_one) {
  Clocked clocked;
  const metal::Work work;
  CHECK_EQ(clocked.observed->begun(work), 0u);
  const uint64_t outer = clocked.observed->open();
  const auto commit = [&] {
    const metal::Queue queue;
    const uint64_t number = clocked.observed->begun(work);
    clocked.observed->ended(number, &queue);
    clocked.observed->completed(number, clocked.times(1, 2, number));
    return number;
  };
  commit();
  const uint64_t inner = clocked.observed->open();
  const uint64_t second_commit = commit();
  CHECK_EQ(clocked.observed->close(inner).rows.size(), 2u);
  CHECK_EQ(clocked.observed->close(outer).rows.size(), 4u);
  clocked.observed->completed(second_commit, clocked.times(1, 2));  // after its end: no effect
  CHECK_THROWS(fastprof::StateError, clocked.observed->close(outer));
  const uint64_t last = clocked.observed->open();
  commit();
  clocked.observed->abandon(last);
  clocked.observed->abandon(last);
}

TEST(a_collection_ends_when_what_was_committed_has_completed) {
  Clocked clocked;
  metal::Work work;
  work.on_gpu = true;
  const metal::Queue queue;
  const auto commit = [&] {
    const uint64_t number = clocked.observed->begun(work);
    clocked.observed->ended(number, &queue);
    return number;
  };
  uint64_t unfinished = 7;
  const uint64_t waiting = clocked.observed->open();
  const uint64_t done = commit(), late = commit();
  clocked.observed->completed(done, clocked.times(1, 2, done));
  std::thread gpu([&] {
    clocked.pause(50);
    clocked.observed->completed(late, clocked.times(2, 3, late));
  });
  CHECK_EQ(clocked.observed->close(waiting, 60, &unfinished).dropped, 0u);
  CHECK_EQ(unfinished, 0u);
  gpu.join();
  // Work that is never completed is waited for until the time is over, and counted.
  const uint64_t stuck = clocked.observed->open();
  commit();
  CHECK_EQ(clocked.observed->close(stuck, 0.01, &unfinished).dropped, 1u);
  CHECK_EQ(unfinished, 1u);
  // What has not been committed is not waited for, nor what is not on the GPU.
  const uint64_t open = clocked.observed->open();
  clocked.observed->begun(work);
  work.on_gpu = false;
  commit();
  CHECK_EQ(clocked.observed->close(open, 60, &unfinished).dropped, unfinished);
}

TEST(what_never_ran_is_at_its_commit_and_open_calls_last_until_the_end) {
  Clocked clocked;
  const uint64_t collection = clocked.observed->open();
  const metal::Queue queue;
  const uint64_t failed = clocked.observed->begun(work_of(metal::WorkKind::kernel, "failed"));
  clocked.observed->ended(failed, &queue);
  metal::BufferTimes none;
  none.error = "refused";
  clocked.observed->completed(failed, none);
  const uint64_t open = clocked.observed->begun(work_of(metal::WorkKind::kernel, "open"));
  CHECK(open != failed);
  clocked.pause(1);
  uint64_t unfinished = 0;
  const Activities got = clocked.observed->close(collection, 0, &unfinished);
  const uint64_t now = fastprof::ticks(fastprof::state());
  fastprof::check_activities(got);
  CHECK_EQ(got.rows.size(), 3u);
  CHECK_EQ(unfinished, 1u);
  CHECK_EQ(got.dropped, 1u);
  CHECK_EQ(got.rows[1].begin, got.rows[0].end);
  CHECK_EQ(got.rows[1].end, got.rows[0].end);
  CHECK_EQ(name_of(got, 2), std::string("encode open"));
  CHECK(got.rows[2].end > got.rows[2].begin && got.rows[2].end <= now);
  CHECK(got.rows[2].begin >= got.rows[0].end);
}

TEST(every_range_may_be_a_signpost) {
  fakes::FakePlatform platform;
  fastprof::RangeSignposts::start(platform);
  CHECK_THROWS(fastprof::StateError, fastprof::RangeSignposts::start(platform));
  {
    FASTPROF_RANGE("outer");
    std::thread([] { FASTPROF_RANGE("thread"); }).join();
    fastprof::RangeSignposts::stop();
    FASTPROF_RANGE("after the stop");
  }
  fastprof::RangeSignposts::stop();
  const char* wanted[] = {"open intervals", "begin range 2001: outer", "begin range 2002: thread",
                          "end range 2002", "end range 2001"};
  CHECK_EQ(platform.log.size(), 5u);
  for (size_t i = 0; i < 5 && i < platform.log.size(); ++i)
    CHECK_EQ(platform.log[i], std::string(wanted[i]));
  platform.log.clear();
  platform.opens_logs = false;
  CHECK_THROWS(fastprof::UnavailableError, fastprof::RangeSignposts::start(platform));
}
