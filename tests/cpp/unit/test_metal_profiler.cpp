// SPDX-License-Identifier: Apache-2.0
// The Metal profiler's signposts, lines, statistics, tables and captures, through a fake platform.
#include <string>
#include <thread>

#include "fastprof/metal/gpu_capture.hpp"
#include "metal_setup.hpp"

using namespace metal_checks;

namespace {

const int kernel = 0, other_kernel = 0, graph = 0;  // handles are their addresses

}  // namespace

TEST(nothing_is_profiled_by_default) {
  Setup setup(0);
  CHECK_EQ(setup.profiler->begin_profile_kernel(&kernel, "add"), 0u);
  setup.profiler->begin_profile_gpu_interval(&kernel);
  setup.profiler->end_profile_kernel(&kernel);
  CHECK_EQ(setup.profiler->begin_profile_copy({}, {}, 4), 0u);
  setup.profiler->end_profile_copy(0, metal::SyncType::NONE);
  CHECK_EQ(setup.profiler->begin_profile_cpu_fallback("sort", {}), 0u);
  setup.profiler->end_profile_cpu_fallback("sort");
  CHECK(setup.platform.log.empty());
  CHECK(setup.profiler->statistics().operations.empty());
}

TEST(an_interval_may_include_scheduling) {
  Setup setup(metal::INCLUDE_SCHEDULE_INTERVAL);
  setup.profiler->begin_profile_kernel(&kernel, "add");
  CHECK_TEXTS(setup.take(), {"begin operation 2001: add (id=K1, run=1)"});
  setup.profiler->begin_profile_gpu_interval(&kernel);
  setup.profiler->end_profile_kernel(&kernel);
  setup.platform.stream.complete(1, 0);
  CHECK_TEXTS(setup.take(), {"synchronize 0", "end operation 2001"});
}

TEST(the_interval_of_a_graph_begins_where_the_caller_says) {
  Setup setup(metal::USE_INTERVALS, metal::RUN_OPERATION);
  CHECK_EQ(setup.profiler->begin_profile_graph(&graph, "conv"), 1u);
  setup.platform.stream.schedule();
  CHECK(setup.take().empty());
  setup.profiler->begin_profile_gpu_interval(&graph);
  setup.platform.stream.schedule();
  CHECK_TEXTS(setup.take(), {"begin operation 2001: conv (id=G1, run=1)"});
  setup.profiler->end_profile_kernel(&graph, nullptr, metal::SyncType::COMMIT_AND_CONTINUE);
  setup.platform.stream.complete(1, 0);
  CHECK_TEXTS(setup.take(), {"synchronize 3", "end operation 2001"});
}

TEST(events_show_gpu_times_and_have_ids_of_their_own) {
  Setup setup(metal::USE_EVENTS | metal::USE_INTERVALS, metal::RUN_OPERATION);
  setup.profiler->begin_profile_kernel(&kernel, "add");
  setup.profiler->end_profile_kernel(&kernel);
  setup.platform.stream.complete(2.0, 0.5);
  CHECK_TEXTS(setup.take(),
              {"synchronize 0", "begin operation 2002: add (id=K1, run=1)",
               "event operation 1001: add (id=K1, run=1) [GPU=2.500 ms]", "end operation 2002"});
}

TEST(a_stopped_trace_ends_the_intervals_that_began) {
  Setup setup(0);
  setup.profiler->start_trace("interval,event", false);
  CHECK_TEXTS(setup.take(), {"open events", "open intervals"});
  CHECK_THROWS(fastprof::StateError, setup.profiler->start_trace("event", false));
  setup.profiler->begin_profile_kernel(&kernel, "begun");
  setup.platform.stream.schedule();
  setup.profiler->begin_profile_kernel(&other_kernel, "not begun");
  setup.take();
  setup.profiler->stop_trace();
  CHECK_EQ(setup.profiler->options().log, 0u);
  setup.profiler->end_profile_kernel(&kernel);
  setup.profiler->end_profile_kernel(&other_kernel);
  setup.platform.stream.complete(1, 0);
  CHECK_TEXTS(setup.take(), {"synchronize 0", "synchronize 0", "end operation 2002"});
  setup.profiler->start_trace("event", true);
  CHECK_EQ(setup.profiler->options().profile,
           uint32_t{metal::ALL_SIGNPOST_EVENTS | metal::USE_EVENTS | metal::WAIT_UNTIL_COMPLETED});
  CHECK_THROWS(fastprof::ValueError, setup.profiler->set_log_options(4096));
}

TEST(command_buffers_are_labelled_on_request_before_they_are_committed) {
  Setup setup(0);
  setup.profiler->label_buffers(true);
  CHECK(setup.profiler->begin_profile_kernel(&kernel, "add", {}, nullptr) != 0);
  setup.profiler->end_profile_kernel(&kernel, nullptr, metal::SyncType::COMMIT);
  const uint64_t copy = setup.profiler->begin_profile_copy({nullptr, nullptr, true}, {}, 4);
  setup.profiler->end_profile_copy(copy, metal::SyncType::NONE);
  CHECK_TEXTS(setup.take(), {"label add", "synchronize 1", "label MPS to CPU", "synchronize 0"});
  CHECK(setup.printed.empty());
  setup.profiler->label_buffers(false);
  CHECK_EQ(setup.profiler->begin_profile_kernel(&kernel, "add"), 0u);
  setup.platform.stream.complete(1, 1);
}

TEST(waiting_overrides_what_an_end_asks_for) {
  Setup setup(metal::ALL_SIGNPOST_EVENTS | metal::WAIT_UNTIL_COMPLETED);
  setup.platform.stream.completes_on_wait = true;
  setup.profiler->begin_profile_kernel(&kernel, "add");
  setup.profiler->end_profile_kernel(&kernel, nullptr, metal::SyncType::COMMIT_ADAPTIVE);
  CHECK_TEXTS(setup.take(), {"synchronize 2", "event operation 1001: add (id=K1, run=1)"});
}

TEST(no_log_and_no_stream_are_errors) {
  fakes::FakePlatform platform;
  platform.opens_logs = false;
  CHECK_THROWS(fastprof::UnavailableError,
               metal::Profiler::make(platform, {metal::ALL_SIGNPOST_EVENTS, 0, 0}));
  platform.opens_logs = true;
  platform.has_default_stream = false;
  const auto profiler = metal::Profiler::make(platform, {0, metal::RUN_OPERATION, 0});
  CHECK_THROWS(fastprof::StateError, profiler->begin_profile_kernel(&kernel, "add"));
  platform.enables_logs = false;  // nobody looks
  profiler->begin_profile_kernel(&kernel, "add", {}, &platform.stream);
  profiler->end_profile_kernel(&kernel, &platform.stream);
  platform.log.clear();
  platform.stream.complete(1, 0);
  CHECK(platform.log.empty());
}

TEST(lines_come_at_the_begin_or_with_times_at_the_end) {
  {
    Setup setup(0, 0, metal::OPERATION_INFO);
    setup.profiler->begin_profile_kernel(&kernel, "add");
    CHECK_EQ(setup.printed, std::string("add (id=K1, run=1)\n"));
    setup.profiler->end_profile_kernel(&kernel);
    setup.platform.stream.complete(1, 1);
    CHECK_EQ(setup.printed, std::string("add (id=K1, run=1)\n"));
  }
  {
    Setup setup(0, 0, metal::OPERATION_INFO | metal::INCLUDE_GPU_TIME);
    setup.profiler->begin_profile_kernel(&kernel, "add");
    CHECK(setup.printed.empty());
    setup.profiler->end_profile_kernel(&kernel);
    setup.platform.stream.complete(0.324, 0.036);
    CHECK_EQ(setup.printed, std::string("add (id=K1, run=1) [GPU=0.360 ms]\n"));
  }
  {
    Setup setup(0, 0, metal::OPERATION_INFO | metal::INCLUDE_KERNEL_TIME);
    setup.profiler->begin_profile_kernel(&kernel, "add");
    setup.profiler->end_profile_kernel(&kernel);
    metal::BufferTimes times;
    times.error = "Caused GPU Timeout Error";
    times.gpu_start_s = 1;
    times.gpu_end_s = 1.000324;
    times.kernel_start_s = 1;
    times.kernel_end_s = 1.000036;
    setup.platform.stream.complete(times);
    CHECK_EQ(setup.printed,
             std::string("add (id=K1, run=1) [GPU=0.324 ms, KRNL=0.036 ms] [failed]\n"));
    CHECK_EQ(setup.profiler->statistics().failed_count, 1u);
  }
}

TEST(buffers_are_numbered_on_request) {
  Setup setup(0, 0, metal::OPERATION_INFO | metal::INCLUDE_BUFFER_ID);
  const char memory[2] = {};
  const TensorDescription tensors[] = {tensor(DeviceType::MPS, DType::float16, &memory[0]),
                                       tensor(DeviceType::MPS, DType::boolean, &memory[1]),
                                       tensor(DeviceType::CPU),
                                       tensor(DeviceType::MPS, DType::float16, &memory[0])};
  setup.profiler->begin_profile_kernel(&kernel, "k", tensors);
  CHECK_EQ(setup.printed,
           std::string("k:MPS(buf#1):Half[2, 3]:MPS(buf#2):Bool[2, 3]:CPU:Float[2, 3]:"
                       "MPS(buf#1):Half[2, 3] (id=K1, run=1)\n"));
}

TEST(copies_have_kinds_and_are_timed_by_who_makes_them) {
  Setup setup(0, metal::BLIT_COPY, metal::COPY_INFO | metal::COPY_STATS | metal::INCLUDE_GPU_TIME);
  const TensorDescription on_gpu = tensor(DeviceType::MPS), on_cpu = tensor(DeviceType::CPU);
  const metal::CopyEnd gpu{nullptr, &on_gpu, false}, cpu{nullptr, &on_cpu, true};
  const metal::CopyEnd buffer{reinterpret_cast<const void*>(0x10e0), nullptr, true};
  metal::Profiler& profiler = *setup.profiler;

  const uint64_t to_cpu = profiler.begin_profile_copy(gpu, cpu, 24);
  const uint64_t to_gpu = profiler.begin_profile_copy(cpu, gpu, 4, nullptr, true);
  CHECK_EQ(to_cpu, 1u);
  CHECK_EQ(to_gpu, 2u);
  profiler.end_profile_copy(to_gpu, metal::SyncType::NONE);
  profiler.end_profile_copy(to_cpu, metal::SyncType::COMMIT_AND_WAIT);
  setup.platform.stream.complete(1.5, 0.5);
  CHECK_EQ(setup.printed,
           std::string("BlitCopy: CPU:Float[2, 3] --> MPS:Float[2, 3] (len=4 bytes) "
                       "[GPU=2.000 ms]\n"
                       "BlitCopySync: MPS:Float[2, 3] --> CPU:Float[2, 3] (len=24 bytes) "
                       "[GPU=2.000 ms]\n"));
  CHECK_TEXTS(setup.take(),
              {"synchronize 0", "synchronize 2",
               "begin copy 2001: BlitCopySync: MPS:Float[2, 3] --> CPU:Float[2, 3] (len=24 bytes)",
               "begin copy 2002: BlitCopy: CPU:Float[2, 3] --> MPS:Float[2, 3] (len=4 bytes)",
               "end copy 2002", "end copy 2001"});

  // By memcpy(): the CPU's clock; the interval begins at once.
  setup.printed.clear();
  const uint64_t blocking =
      profiler.begin_profile_copy(buffer, gpu, 3 << 20, nullptr, false, false);
  setup.platform.now_s += 0.25;
  profiler.end_profile_copy(blocking, metal::SyncType::COMMIT);
  CHECK_EQ(setup.printed, std::string("MemCopySync: MPS:0x10e0 --> MPS:Float[2, 3] (len=3.00 MB) "
                                      "[CPU=250.000 ms]\n"));
  CHECK_TEXTS(setup.take(),
              {"begin copy 2003: MemCopySync: MPS:0x10e0 --> MPS:Float[2, 3] (len=3.00 MB)",
               "end copy 2003"});
  // One that nobody waits for has neither line nor signpost, but counts.
  setup.printed.clear();
  const uint64_t silent = profiler.begin_profile_copy(gpu, cpu, 9, nullptr, true, false);
  profiler.end_profile_copy(silent, metal::SyncType::NONE);
  CHECK(setup.printed.empty() && setup.take().empty());
  CHECK_THROWS(fastprof::StateError, profiler.end_profile_copy(silent, metal::SyncType::NONE));

  const metal::Statistics got = profiler.statistics();
  CHECK_EQ(got.copy_count, 4u);
  const metal::CopyStatistics& read = got.copies[static_cast<int>(metal::CopyKind::mps_to_cpu)];
  CHECK_EQ(read.count, 2u);
  CHECK_EQ(read.bytes, 33u);
  CHECK_EQ(read.blocking_count, 1u);
  CHECK_EQ(read.memcpy_count, 1u);
  CHECK_EQ(read.scalar_count, 0u);
  const metal::CopyStatistics& written = got.copies[static_cast<int>(metal::CopyKind::cpu_to_mps)];
  CHECK_EQ(written.scalar_count, 1u);
  CHECK_EQ(written.blocking_count, 0u);
  CHECK(written.scalar_gpu_ms == written.gpu_ms && written.gpu_ms > 1.49 && written.gpu_ms < 1.51);
}

TEST(fallbacks_are_timed_and_count_copied_bytes) {
  Setup setup(0, metal::CPU_FALLBACK, metal::CPU_FALLBACK_INFO | metal::INCLUDE_KERNEL_TIME);
  const TensorDescription tensors[] = {tensor(DeviceType::MPS),
                                       tensor(DeviceType::MPS, DType::undefined),
                                       tensor(DeviceType::MPS, DType::float64)};
  CHECK_EQ(setup.profiler->begin_profile_cpu_fallback("aten::sort", tensors), 1u);
  CHECK_EQ(setup.profiler->begin_profile_cpu_fallback("aten::eig", {}), 2u);
  setup.platform.now_s += 0.001;
  setup.profiler->end_profile_cpu_fallback("aten::eig");
  setup.platform.now_s += 0.002;
  setup.profiler->end_profile_cpu_fallback("aten::sort");
  CHECK_EQ(setup.profiler->begin_profile_cpu_fallback("aten::sort", {}), 1u);
  setup.profiler->end_profile_cpu_fallback("aten::sort");
  CHECK_EQ(
      setup.printed,
      std::string("CPU Fallback::aten::eig (id=2, run=1, CopyOverhead=0 bytes) [CPU=1.000 ms]\n"
                  "CPU Fallback::aten::sort:MPS:Float[2, 3]:undefined:MPS:Double[2, 3] (id=1, "
                  "run=1, CopyOverhead=72 bytes) [CPU=3.000 ms]\n"
                  "CPU Fallback::aten::sort (id=1, run=2, CopyOverhead=0 bytes)\n"));
  CHECK_EQ(setup.platform.log.size(), 6u);
  CHECK_EQ(setup.platform.log[0],
           std::string("begin fallback 2001: CPU Fallback::aten::sort:MPS:Float[2, 3]:undefined:"
                       "MPS:Double[2, 3] (id=1, run=1, CopyOverhead=72 bytes)"));
}

TEST(runs_of_one_handle_on_two_threads_are_kept_apart) {
  Setup setup(0, 0, metal::OPERATION_INFO | metal::INCLUDE_GPU_TIME);
  setup.profiler->begin_profile_kernel(&kernel, "main");
  std::thread([&] {
    setup.profiler->begin_profile_kernel(&kernel, "other");
    setup.profiler->end_profile_kernel(&kernel);
  }).join();
  setup.platform.stream.complete(1, 0);
  CHECK_EQ(setup.printed, std::string("other (id=K1, run=2) [GPU=1.000 ms]\n"));
  // A run may be ended by another thread than the one that began it.
  std::thread([&] { setup.profiler->end_profile_kernel(&kernel); }).join();
  setup.platform.stream.complete(1, 0);
  CHECK_EQ(setup.printed, std::string("other (id=K1, run=2) [GPU=1.000 ms]\n"
                                      "main (id=K1, run=1) [GPU=1.000 ms]\n"));
}

TEST(tables) {
  Setup setup(0, 0, metal::ALL_STATS);
  metal::Profiler& profiler = *setup.profiler;
  for (int run = 0; run < 2; ++run) {
    profiler.begin_profile_kernel(&kernel, "add");
    profiler.end_profile_kernel(&kernel);
    setup.platform.stream.complete(1.0, 0.25);
  }
  profiler.begin_profile_graph(&graph, "conv");
  profiler.end_profile_kernel(&graph);
  setup.platform.stream.complete(8.0, 0.5);
  const metal::CopyEnd gpu{nullptr, nullptr, true}, cpu{nullptr, nullptr, false};
  profiler.end_profile_copy(profiler.begin_profile_copy(cpu, gpu, 8), metal::SyncType::NONE);
  setup.platform.stream.complete(1.0, 0.0);
  profiler.end_profile_copy(profiler.begin_profile_copy(cpu, gpu, 2040), metal::SyncType::NONE);
  setup.platform.stream.complete(3.0, 0.5);
  const TensorDescription tensors[] = {tensor(DeviceType::MPS)};
  profiler.begin_profile_cpu_fallback("aten::sort", tensors);
  setup.platform.now_s += 0.0015;
  profiler.end_profile_cpu_fallback("aten::sort");
  profiler.log_statistics(true);
  // Made by Python's format(), whose language that of the original's tables is:
  // "{:^7}{:^8}{:^16}{:^15}{:^16} {}" and the like.
  const auto rule = [](size_t width) { return std::string(width, '-'); };
  const std::string wanted =
      std::string("\n") + rule(76) + " MPS Operations Profiling: 1 graphs, 1 kernels " + rule(77) +
      "\n" +
      std::string(
          "  ID  | #Runs | Mean KRNL(ms) | Mean GPU(ms) | Total GPU(ms) | Operation Name\n") +
      rule(200) + "\n" +
      std::string("  G1      1         0.500           8.000          8.000       conv\n") +
      std::string("  K1      2         0.250           1.000          2.000       add\n") +
      std::string("\n") + rule(43) +
      " CPU Fallback Profiling: Total 1 Runs, 1.50 ms, 24 bytes Copies " + rule(43) + "\n" +
      std::string(
          " ID  | #Runs | Mean CPU(ms) | Total CPU(ms) | Copy Overhead | Operation Name\n") +
      rule(150) + "\n" +
      std::string("  1      1         1.500          1.500          24 bytes     aten::sort\n") +
      std::string("\n") + rule(48) +
      " MPS Copy Profiling: 2 total copies (2.00 KB), 1 scalar copies " + rule(49) + "\n" +
      std::string(
          "    Kind    |  Total#  |   Total Size    | Total KRNL(ms) | Total GPU(ms) | Scalars | "
          "Scalars GPU | Blocking | memcpy \n") +
      rule(160) + "\n" +
      std::string(
          " CPU to MPS       2          2.00 KB            0.500           4.000          1        "
          "25.00 %         2         0    \n");
  if (setup.printed != wanted)
    check::fail(__FILE__, __LINE__, "got\n" + setup.printed + "instead of\n" + wanted);
  setup.printed.clear();
  profiler.log_statistics(true);  // once
  CHECK(setup.printed.empty());
}

TEST(captures) {
  fakes::FakePlatform platform;
  metal::GpuCapture capture(platform);
  CHECK(capture.is_enabled() && !capture.is_capturing());
  CHECK_EQ(capture.start("step"), std::string("0000-step.gputrace"));
  CHECK(capture.is_capturing());
  CHECK_THROWS(fastprof::StateError, capture.start("step"));
  capture.stop();
  CHECK_EQ(capture.start("folder/step", &platform.stream),
           std::string("folder/0001-step.gputrace"));
  capture.stop(&platform.stream);
  CHECK_TEXTS(platform.log,
              {"capture 0000-step.gputrace of device", "synchronize all", "stop capture",
               "capture folder/0001-step.gputrace of stream", "synchronize 2", "stop capture"});
  CHECK_THROWS(fastprof::StateError, capture.stop());
  CHECK_THROWS(fastprof::ValueError, capture.start(""));
  platform.capture_error = "no space";
  try {
    capture.start("x");
    CHECK(false);
  } catch (const fastprof::UnavailableError& error) {
    CHECK_EQ(std::string(error.what()),
             std::string("the Metal capture 0002-x.gputrace could not be started: no space"));
  }
  platform.supports_captures = false;
  CHECK_THROWS(fastprof::UnavailableError, capture.start("x"));

  // Work that fails while it is completed does not leave the capture open.
  platform.supports_captures = true;
  platform.capture_error.clear();
  capture.start("y");
  platform.on_synchronize_all = [] { throw std::runtime_error("device lost"); };
  CHECK_THROWS(std::runtime_error, capture.stop());
  CHECK(!capture.is_capturing());
}
