// SPDX-License-Identifier: Apache-2.0
// The Metal backend on the double of Apple's frameworks: the very same .mm files that are built on
// macOS, driven from C++. tests/tools/metal_double.py builds it; test_metal_backend.py runs it.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/metal/metal_platform.hpp"
#include "check.hpp"
#include "fake_metal.h"
#include "fastprof/metal.hpp"

namespace {

namespace metal = fastprof::metal;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A queue with its stream.
struct Work {
  explicit Work(const char* label = "main queue")
      : queue(fake_metal_new_queue(label)), stream(metal::make_queue_stream(queue)) {}
  ~Work() {
    stream.reset();
    fake_metal_release_queue(queue);
  }
  void* queue;
  std::unique_ptr<metal::QueueStream> stream;
};

const int kernel = 0, graph = 0;

}  // namespace

TEST(the_platform_is_there) {
  CHECK_EQ(metal::metal_platform().problem(), std::string());
  fake_metal_devices(0);
  CHECK_EQ(metal::metal_platform().problem(),
           std::string("this machine has no GPU that supports Metal"));
  fake_metal_devices(1);
  const double before = metal::metal_platform().host_time_s();
  usleep(20000);
  const double passed = metal::metal_platform().host_time_s() - before;
  CHECK(passed >= 0.0199 && passed < 5);
  CHECK(metal::metal_platform().default_stream() == nullptr);
  CHECK_THROWS(fastprof::ValueError, metal::make_queue_stream(nullptr));
}

TEST(signposts_of_operations_copies_and_fallbacks) {
  Work work;
  CHECK(metal::metal_platform().default_stream() == work.stream.get());
  const auto profiler = metal::Profiler::make(metal::metal_platform());
  fake_metal_take_log();
  profiler->start_trace("interval,event", true);
  profiler->begin_profile_kernel(&kernel, "add");
  profiler->end_profile_kernel(&kernel);  // waits: the handlers have run
  std::string log = fake_metal_take_log();
  CHECK(has(log, "log fastprof.metal Events\nlog fastprof.metal Intervals\n"));
  CHECK(has(log, "Intervals begin 2 Metal operation: add (id=K1, run=1)\n"));
  CHECK(has(log, "Events event 1 Metal operation: add (id=K1, run=1) [GPU="));
  CHECK(has(log, "Intervals end 2 Metal operation\n"));
  const metal::CopyEnd gpu{nullptr, nullptr, true}, cpu{nullptr, nullptr, false};
  profiler->end_profile_copy(profiler->begin_profile_copy(gpu, cpu, 4), metal::SyncType::COMMIT);
  profiler->begin_profile_cpu_fallback("aten::sort", {});
  profiler->end_profile_cpu_fallback("aten::sort");
  profiler->begin_profile_graph(&graph, "conv");
  profiler->begin_profile_gpu_interval(&graph);
  profiler->end_profile_kernel(&graph);
  log = fake_metal_take_log();
  CHECK(has(log, "Intervals begin 4 Metal copy: BlitCopySync: MPS:0x0 --> CPU:0x0 (len=4 bytes)"));
  CHECK(has(log, "Events event 3 Metal copy: BlitCopySync"));
  CHECK(has(log, "Intervals begin 6 CPU fallback: CPU Fallback::aten::sort (id=1, run=1"));
  CHECK(has(log, "Events event 5 CPU fallback: "));
  CHECK(has(log, "Intervals end 6 CPU fallback\n"));
  CHECK(has(log, "Intervals begin 8 Metal operation: conv (id=G2, run=1)") ||
        has(log, "Intervals begin 8 Metal operation: conv (id=G1, run=1)"));
  fake_metal_watch_signposts(0);
  profiler->begin_profile_kernel(&kernel, "add");
  profiler->end_profile_kernel(&kernel);
  CHECK_EQ(std::string(fake_metal_take_log()), std::string());
  fake_metal_watch_signposts(1);
  profiler->stop_trace();
  metal::Signposts& signposts = metal::metal_platform().signposts();
  CHECK_EQ(signposts.make_id(metal::SignpostLog::events, &kernel),
           static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&kernel)));
}

TEST(times_are_those_of_the_command_buffer) {
  Work work;
  const auto profiler =
      metal::Profiler::make(metal::metal_platform(), {0, 0, metal::OPERATION_STATS});
  fake_metal_run_ms(8, 3);
  profiler->begin_profile_kernel(&kernel, "add", {}, work.stream.get());
  profiler->end_profile_kernel(&kernel, work.stream.get(), metal::SyncType::COMMIT_AND_WAIT);
  metal::Statistics got = profiler->statistics();
  CHECK_EQ(got.operations.size(), 1u);
  CHECK(got.operations[0].gpu_ms >= 8 && got.operations[0].gpu_ms < 5000);
  CHECK(got.operations[0].scheduling_ms >= 3);
  CHECK_EQ(got.pending_count, 0u);
  fake_metal_run_ms(1, 0.1);
  fake_metal_fail_next("GPU timeout");
  profiler->begin_profile_kernel(&kernel, "add", {}, work.stream.get());
  profiler->end_profile_kernel(&kernel, work.stream.get(), metal::SyncType::COMMIT);
  CHECK_EQ(profiler->wait_for_pending(), 0u);
  CHECK_EQ(profiler->statistics().failed_count, 1u);
}

TEST(commits_happen_as_the_sync_type_says) {
  {
    Work work;
    const auto profiler =
        metal::Profiler::make(metal::metal_platform(), {0, 0, metal::OPERATION_STATS});
    const auto run = [&](metal::SyncType sync) {
      profiler->begin_profile_kernel(&kernel, "k", {}, work.stream.get());
      void* const buffer = work.stream->command_buffer();
      profiler->end_profile_kernel(&kernel, work.stream.get(), sync);
      return buffer != work.stream->command_buffer();
    };
    fake_metal_hold(1);
    CHECK(!run(metal::SyncType::NONE));
    CHECK(!run(metal::SyncType::COMMIT_ADAPTIVE));
    CHECK(run(metal::SyncType::COMMIT));
    CHECK(run(metal::SyncType::COMMIT_AND_CONTINUE));
    CHECK_EQ(profiler->statistics().pending_count, 4u);
    fake_metal_hold(0);
    run(metal::SyncType::COMMIT_AND_WAIT);
    CHECK_EQ(profiler->statistics().pending_count, 0u);
    fake_metal_hold(1);  // a command buffer that is alive has an address of its own
    int commits = 0;
    for (int i = 0; i < metal::QueueStream::kAdaptiveWorks; ++i)
      commits += static_cast<int>(run(metal::SyncType::COMMIT_ADAPTIVE));
    CHECK_EQ(commits, 1);
    fake_metal_hold(0);
    // What the stream's end leaves is committed, so that handlers are called.
    run(metal::SyncType::NONE);
    work.stream->synchronize(metal::SyncType::COMMIT_AND_WAIT);
    CHECK_EQ(profiler->wait_for_pending(), 0u);
    run(metal::SyncType::NONE);
    work.stream.reset();
    CHECK_EQ(profiler->wait_for_pending(), 0u);
  }
  for (int i = 0; i < 500 && fake_metal_live_buffers() != 0; ++i) usleep(10000);
  CHECK_EQ(fake_metal_live_buffers(), 0);
}

TEST(threads_profile_at_once) {
  const auto profiler = metal::Profiler::make(
      metal::metal_platform(), {metal::ALL_SIGNPOST_EVENTS, 0, metal::OPERATION_STATS});
  fake_metal_run_ms(0, 0);
  constexpr int kThreads = 4, kRuns = 50;
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Work work;
      for (int i = 0; i < kRuns; ++i) {
        profiler->begin_profile_kernel(&kernel + (t % 2), "shared", {}, work.stream.get());
        profiler->end_profile_kernel(
            &kernel + (t % 2), work.stream.get(),
            i % 5 == 0 ? metal::SyncType::COMMIT_AND_WAIT : metal::SyncType::COMMIT);
        sum += static_cast<int>(profiler->statistics().operations.size() != 0);
      }
      work.stream->synchronize(metal::SyncType::COMMIT_AND_WAIT);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(profiler->wait_for_pending(), 0u);
  uint64_t runs = 0, completed = 0;
  for (const auto& each : profiler->statistics().operations) {
    runs += each.run_count;
    completed += each.completed_count;
  }
  CHECK_EQ(runs, uint64_t{kThreads * kRuns});
  CHECK_EQ(completed, uint64_t{kThreads * kRuns});
  fake_metal_run_ms(1, 0.1);
}

TEST(captures_are_documents) {
  Work work;
  char folder[] = "captureXXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  const std::string name = std::string(folder) + "/step";
  metal::GpuCapture capture(metal::metal_platform());
  fake_metal_take_log();
  const std::string path = capture.start(name);
  CHECK_EQ(path, std::string(folder) + "/0000-step.gputrace");
  CHECK(capture.is_capturing());
  work.stream->command_buffer();
  capture.stop();  // commits what is encoded, and waits
  CHECK(!capture.is_capturing());
  CHECK_EQ(std::string(fake_metal_take_log()), std::string("capture of device\n"));
  char count[8] = {};
  if (std::FILE* file = std::fopen((path + "/command_buffers").c_str(), "r")) {
    CHECK(std::fgets(count, sizeof count, file) != nullptr);
    std::fclose(file);
  }
  CHECK_EQ(std::string(count), std::string("1\n"));
  capture.start(name, work.stream.get());
  capture.stop(work.stream.get());
  CHECK_EQ(std::string(fake_metal_take_log()), std::string("capture of queue\n"));
  fake_metal_captures(1, "Capturing is not possible now");
  std::string message;
  try {
    capture.start(name);
  } catch (const fastprof::UnavailableError& error) {
    message = error.what();
  }
  CHECK(has(message, "0002-step.gputrace could not be started: Capturing is not possible now"));
  fake_metal_captures(0, nullptr);
  CHECK(!capture.is_enabled());
  CHECK_THROWS(fastprof::UnavailableError, capture.start(name));
  fake_metal_captures(1, nullptr);
}

TEST(all_commits_of_the_process_are_observed_in_sessions) {
  metal::Platform& platform = metal::metal_platform();
  auto observed = std::make_shared<fastprof::MetalActivities>(platform);
  void* const queue = fake_metal_new_queue("somebody's queue");
  fake_metal_commit(queue, "not observed", 1);
  fake_metal_devices(2);  // their command buffers are of one class
  std::string reason;
  const auto profiler = metal::Profiler::make(platform);
  profiler->set_observer(observed);
  const auto commits = std::make_shared<metal::CommandBuffers>(profiler);
  CHECK(platform.observe_commits(commits, reason));
  const uint64_t collection = observed->open();
  fastprof::Session session;
  session.start();
  fake_metal_run_ms(5, 0.5);
  {
    FASTPROF_RANGE("step");
    fake_metal_commit(queue, "training", 0);
  }
  fake_metal_fail_next("out of memory");
  fake_metal_commit(queue, "", 1);
  fastprof::Activities got = observed->close(collection);
  profiler->start_trace("interval", true);  // signposts of every command buffer; commits wait
  fake_metal_take_log();
  fake_metal_commit(queue, "traced", 0);
  const std::string log = fake_metal_take_log();
  CHECK(has(log, " Metal operation: traced (id=K3, run=1)\n") && has(log, "Intervals end "));
  profiler->stop_trace();
  CHECK(platform.observe_commits(nullptr, reason));
  fake_metal_commit(queue, "not observed", 1);
  CHECK_EQ(got.dropped, 0u);
  CHECK_EQ(got.rows.size(), 4u);
  session.add_activities(std::move(got));
  session.stop();
  const fastprof::Capture& capture = session.capture();
  int checked = 0;
  for (const fastprof::DeviceLink& link : capture.device_links) {
    if (link.call < 0) continue;
    const std::string& name = capture.sites[capture.site[link.row]].name;
    const int64_t ns = capture.end_ns[link.row] - capture.start_ns[link.row];
    if (name == "training") {
      ++checked;
      CHECK(link.range >= 0);
      CHECK_EQ(capture.sites[capture.site[static_cast<size_t>(link.range)]].name,
               std::string("step"));
      CHECK(ns >= 4900000);
      CHECK(capture.start_ns[link.row] >= capture.start_ns[static_cast<size_t>(link.call)]);
      CHECK_EQ(capture.tracks[capture.track[link.row]].name, std::string("somebody's queue"));
    } else {
      ++checked;
      CHECK_EQ(name, std::string("command buffer"));
      CHECK_EQ(ns, int64_t{0});
    }
  }
  CHECK_EQ(checked, 2);
  fake_metal_devices(0);
  CHECK(!platform.observe_commits(commits, reason));
  CHECK_EQ(reason, std::string("no Metal device makes command buffers here"));
  fake_metal_devices(1);
  fake_metal_run_ms(1, 0.1);
  fake_metal_release_queue(queue);
}

TEST(command_buffers_get_the_names_of_works_as_labels_unless_they_have_one) {
  const auto profiler = metal::Profiler::make(metal::metal_platform());
  profiler->label_buffers(true);
  void* const queue = fake_metal_new_queue("labelled");
  const auto stream = metal::make_queue_stream(queue);
  const auto work = [&](const char* name) {
    profiler->begin_profile_kernel(name, name, {}, stream.get());
    profiler->end_profile_kernel(name, stream.get(), metal::SyncType::NONE);
    return metal::label_of_buffer(stream->command_buffer());
  };
  CHECK_EQ(work("scale"), std::string("scale"));
  CHECK_EQ(work("add"), std::string("scale, add"));
  stream->synchronize(metal::SyncType::COMMIT);
  CHECK_EQ(work("next"), std::string("next"));
  stream->synchronize(metal::SyncType::COMMIT);
  fake_metal_label(stream->command_buffer(), "the program's");
  CHECK_EQ(work("scale"), std::string("the program's"));
  stream->synchronize(metal::SyncType::COMMIT);
  for (int i = 0; i < 100; ++i) work("many names");
  CHECK(metal::label_of_buffer(stream->command_buffer()).size() < 250);
  stream->synchronize(metal::SyncType::COMMIT_AND_WAIT);
  fake_metal_release_queue(queue);
}

// The last test: what is loaded stays.
TEST(pytorchs_stream_is_found_in_the_library_that_is_loaded) {
  metal::Platform& platform = metal::metal_platform();
  CHECK(metal::torch_stream() == nullptr);
  void* const torch = dlopen("./libfake_torch.so", RTLD_NOW | RTLD_GLOBAL);
  if (torch == nullptr) {
    check::fail(__FILE__, __LINE__, dlerror());
    return;
  }
  metal::Stream* const stream = metal::torch_stream();
  CHECK(stream != nullptr && platform.default_stream() == stream);
  CHECK_EQ(stream->queue().name, std::string("PyTorch MPS stream"));
  const auto profiler = metal::Profiler::make(platform, {0, 0, metal::OPERATION_STATS});
  profiler->begin_profile_kernel(&kernel, "add");
  profiler->end_profile_kernel(&kernel, nullptr, metal::SyncType::COMMIT_AND_WAIT);
  CHECK_EQ(profiler->statistics().pending_count, 0u);
  CHECK(profiler->statistics().operations[0].gpu_ms > 0);
  profiler->begin_profile_kernel(&kernel, "add");
  profiler->end_profile_kernel(&kernel);  // PyTorch would commit it some day
  CHECK_EQ(profiler->statistics().pending_count, 1u);
  CHECK_EQ(profiler->wait_for_pending(), 0u);
}
