// SPDX-License-Identifier: Apache-2.0
// Works of the Metal profiler between begin and end: their lines and signposts, who observes them,
// what is found again and added up, and how pending work is awaited.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fastprof/metal/command_buffers.hpp"
#include "fastprof/metal/execution.hpp"
#include "fastprof/metal/run_ledger.hpp"
#include "metal_setup.hpp"

using namespace metal_checks;

namespace {

const int kernel = 0, graph = 0;  // handles are their addresses
const int kernels[3] = {};        // handles in order

// Writes down what it is told. Its numbers begin with 41; none: it does not want the works.
struct Watcher final : metal::ExecutionObserver {
  explicit Watcher(Texts& all, bool wants = true) : log(all), wants_works(wants) {}

  uint64_t begun(const metal::Work& work) noexcept override {
    log.push_back("begun " + work.name + " " + std::to_string(work.profile_id) + " " +
                  std::to_string(work.bytes) + (work.on_gpu ? " gpu" : " cpu") +
                  (work.is_commit ? " commit" : ""));
    return wants_works ? number++ : 0;
  }
  void ended(uint64_t which, const metal::Queue* queue) noexcept override {
    log.push_back("ended " + std::to_string(which) + " on " +
                  (queue != nullptr ? std::to_string(queue->id) : "none"));
  }
  void completed(uint64_t which, const metal::BufferTimes& times) noexcept override {
    log.push_back("completed " + std::to_string(which) + " after " +
                  std::to_string(static_cast<int>(times.gpu_ms())));
  }

  Texts& log;
  bool wants_works;
  uint64_t number = 41;
};

metal::Options with_log(uint32_t log) {
  metal::Options made;
  made.log = log;
  return made;
}

}  // namespace

TEST(lines_are_printed_once_for_the_kinds_that_are_asked_for) {
  const std::pair<metal::WorkKind, uint32_t> kinds[] = {
      {metal::WorkKind::graph, metal::OPERATION_INFO},
      {metal::WorkKind::kernel, metal::OPERATION_INFO},
      {metal::WorkKind::copy, metal::COPY_INFO},
      {metal::WorkKind::cpu_fallback, metal::CPU_FALLBACK_INFO}};
  const uint32_t times[] = {0, metal::INCLUDE_GPU_TIME, metal::INCLUDE_KERNEL_TIME,
                            metal::INCLUDE_GPU_TIME | metal::INCLUDE_KERNEL_TIME};
  for (const auto& [kind, own] : kinds)
    for (const uint32_t shown : times) {
      CHECK_EQ(metal::prints_info(with_log(own | shown), kind, false), shown == 0);
      CHECK_EQ(metal::prints_info(with_log(own | shown), kind, true), shown != 0);
      const uint32_t others = 7 & ~own;
      CHECK(!metal::prints_info(with_log(others | shown), kind, false));
      CHECK(!metal::prints_info(with_log(others | shown), kind, true));
    }
}

TEST(times_at_the_end_of_a_line) {
  metal::Execution work;
  work.text = "work";
  const auto text = [&work](uint32_t log, double gpu_ms, double other_ms, bool failed = false) {
    return metal::text_at_end(work, with_log(log), gpu_ms, other_ms, failed);
  };
  CHECK_EQ(text(metal::INCLUDE_GPU_TIME, 0.25, 0.5), std::string("work [GPU=0.750 ms]"));
  CHECK_EQ(text(metal::INCLUDE_KERNEL_TIME, 0.25, 0.5),
           std::string("work [GPU=0.250 ms, KRNL=0.500 ms]"));
  // Without a time of the GPU, the scheduling time is shown as such.
  CHECK_EQ(text(metal::INCLUDE_GPU_TIME, 0, 0.5), std::string("work [KRNL=0.500 ms]"));
  CHECK_EQ(text(metal::INCLUDE_GPU_TIME, 0, 0, true), std::string("work [failed]"));
  CHECK_EQ(text(0, 0, 0), std::string("work"));
  work.work.on_gpu = false;
  CHECK_EQ(text(metal::INCLUDE_GPU_TIME, 0, 0.5), std::string("work [CPU=0.500 ms]"));
}

// Where no interval can begin, no stream is asked for: without a default stream that would raise.
TEST(an_interval_that_cannot_begin_asks_for_no_stream) {
  for (const uint32_t way : {uint32_t{metal::USE_EVENTS},
                             metal::USE_INTERVALS | uint32_t{metal::INCLUDE_SCHEDULE_INTERVAL}}) {
    Setup setup(way, metal::RUN_OPERATION);
    setup.platform.has_default_stream = false;
    CHECK_EQ(setup.profiler->begin_profile_graph(&graph, "conv"), 1u);
    setup.profiler->begin_profile_gpu_interval(&graph);
  }
  // Nor for a graph that is not open, or once operations are no longer profiled.
  Setup setup(metal::USE_INTERVALS, metal::BLIT_COPY);
  setup.platform.has_default_stream = false;
  setup.profiler->label_buffers(true);
  setup.profiler->begin_profile_gpu_interval(&graph);
  CHECK_EQ(setup.profiler->begin_profile_graph(&graph, "conv"), 1u);
  setup.profiler->label_buffers(false);
  setup.profiler->begin_profile_gpu_interval(&graph);
  CHECK(setup.platform.log.empty());
}

TEST(observers_follow_works_to_their_completion) {
  Setup setup(0);
  Texts log;
  setup.profiler->set_observer(std::make_shared<Watcher>(log));
  setup.platform.stream.made_queue.id = 9;
  const metal::CopyEnd gpu{nullptr, nullptr, true}, cpu{nullptr, nullptr, false};
  metal::Profiler& profiler = *setup.profiler;
  profiler.begin_profile_kernel(&kernel, "add");
  profiler.end_profile_kernel(&kernel);
  const uint64_t copy = profiler.begin_profile_copy(gpu, cpu, 16);
  profiler.end_profile_copy(copy, metal::SyncType::COMMIT);
  setup.platform.stream.complete(3, 0);
  const uint64_t by_cpu = profiler.begin_profile_copy(cpu, gpu, 8, nullptr, false, false);
  profiler.end_profile_copy(by_cpu, metal::SyncType::NONE);
  const TensorDescription tensors[] = {tensor(DeviceType::MPS)};
  profiler.begin_profile_cpu_fallback("aten::sort", tensors);
  profiler.end_profile_cpu_fallback("aten::sort");
  CHECK_TEXTS(log,
              {"begun add 1 0 gpu", "ended 41 on 9", "begun MPS to CPU 1 16 gpu", "ended 42 on 9",
               "completed 41 after 3", "completed 42 after 3", "begun CPU to MPS 2 8 cpu",
               "ended 43 on none", "begun aten::sort 1 24 cpu", "ended 44 on none"});
  CHECK_TEXTS(setup.take(), {"synchronize 0", "synchronize 1"});
}

TEST(observers_may_leave_works_out) {
  Setup setup(0);
  Texts log;
  const auto watcher = std::make_shared<Watcher>(log, false);
  setup.profiler->set_observer(watcher);
  metal::CommandBuffers buffers(setup.profiler);
  setup.profiler->begin_profile_kernel(&kernel, "add");
  setup.profiler->end_profile_kernel(&kernel);
  setup.platform.stream.complete(1, 0);
  buffers.committed(buffers.committing(setup.platform.stream, "step"));
  setup.platform.stream.complete(1, 0);
  setup.profiler->begin_profile_cpu_fallback("aten::sort", {});
  setup.profiler->end_profile_cpu_fallback("aten::sort");
  CHECK_TEXTS(log, {"begun add 1 0 gpu", "begun step 2 0 gpu commit", "begun aten::sort 1 0 cpu"});
}

TEST(whole_command_buffers_are_operations_and_may_be_waited_for) {
  Setup setup(metal::WAIT_UNTIL_COMPLETED | metal::USE_INTERVALS, metal::RUN_OPERATION,
              metal::OPERATION_INFO);
  Texts log;
  setup.profiler->set_observer(std::make_shared<Watcher>(log));
  setup.platform.stream.made_queue.id = 4;
  setup.platform.stream.completes_on_wait = true;
  metal::CommandBuffers buffers(setup.profiler);
  buffers.committed(buffers.committing(setup.platform.stream, ""));
  CHECK_TEXTS(setup.take(), {"synchronize 2", "begin operation 2001: command buffer (id=K1, run=1)",
                             "end operation 2001"});
  CHECK_TEXTS(log,
              {"begun command buffer 1 0 gpu commit", "completed 41 after 0", "ended 41 on 4"});
  CHECK_EQ(setup.printed, std::string("command buffer (id=K1, run=1)\n"));
  // The same label is the same operation. Without the wait the commit is left to the program.
  setup.profiler->stop_trace();
  setup.take();
  buffers.committed(buffers.committing(setup.platform.stream, ""));
  CHECK(setup.take().empty());
  // It completes like any other work, and the next one may have its number.
  CHECK(setup.profiler->begin_command_buffer(setup.platform.stream, "next") == nullptr);
  setup.platform.stream.complete(1, 0);
  CHECK(setup.profiler->begin_command_buffer(setup.platform.stream, "next") != nullptr);
  const metal::Statistics got = setup.profiler->statistics();
  CHECK_EQ(got.operations.size(), 2u);
  CHECK_EQ(got.operations[0].run_count, 2u);
  CHECK_EQ(got.operations[0].completed_count, 2u);
  CHECK_EQ(got.pending_count, 1u);
  setup.platform.stream.complete(1, 0);
}

TEST(a_run_is_found_by_its_handle_only) {
  Setup setup(0, 0, metal::OPERATION_STATS);
  metal::Profiler& profiler = *setup.profiler;
  // Open by this thread: the middle one. Others end neither it nor anything else.
  profiler.begin_profile_kernel(&kernels[1], "middle");
  std::thread([&] {
    profiler.end_profile_kernel(&kernels[0]);
    profiler.end_profile_kernel(&kernels[2]);
  }).join();
  profiler.end_profile_kernel(&kernels[0]);
  CHECK_EQ(profiler.statistics().pending_count, 0u);
  std::thread([&] { profiler.end_profile_kernel(&kernels[1]); }).join();
  CHECK_EQ(profiler.statistics().pending_count, 1u);
  // A second begin replaces a run that was not ended.
  profiler.begin_profile_kernel(&kernels[1], "left");
  profiler.begin_profile_kernel(&kernels[1], "middle");
  profiler.end_profile_kernel(&kernels[1]);
  profiler.end_profile_kernel(&kernels[1]);
  CHECK_EQ(profiler.statistics().pending_count, 2u);
  setup.platform.stream.complete(2, 1);
  const metal::Statistics got = profiler.statistics();
  CHECK_EQ(got.operations.size(), 1u);
  CHECK_EQ(got.operations[0].run_count, 3u);
  CHECK_EQ(got.operations[0].completed_count, 2u);
  CHECK(got.operations[0].gpu_ms > 3.99 && got.operations[0].gpu_ms < 4.01);
  CHECK(got.operations[0].scheduling_ms > 1.99 && got.operations[0].scheduling_ms < 2.01);
}

TEST(fallbacks_are_found_by_op_and_thread) {
  Setup setup(0, 0, metal::CPU_FALLBACK_INFO | metal::CPU_FALLBACK_STATS);
  metal::Profiler& profiler = *setup.profiler;
  const TensorDescription tensors[] = {tensor(DeviceType::MPS), tensor(DeviceType::MPS)};
  profiler.begin_profile_cpu_fallback("aten::sort", tensors);
  std::thread([&] { profiler.end_profile_cpu_fallback("aten::sort"); }).join();  // not its own
  setup.platform.now_s += 0.5;
  profiler.end_profile_cpu_fallback("aten::sort");
  CHECK_EQ(profiler.begin_profile_cpu_fallback("aten::sort", tensors), 1u);
  setup.platform.now_s -= 20;  // the clock was set back
  profiler.end_profile_cpu_fallback("aten::sort");
  CHECK_EQ(setup.printed, std::string("CPU Fallback::aten::sort:MPS:Float[2, 3]:MPS:Float[2, 3] "
                                      "(id=1, run=1, CopyOverhead=48 bytes)\n"
                                      "CPU Fallback::aten::sort:MPS:Float[2, 3]:MPS:Float[2, 3] "
                                      "(id=1, run=2, CopyOverhead=48 bytes)\n"));
  const metal::Statistics got = profiler.statistics();
  CHECK_EQ(got.fallbacks.size(), 1u);
  CHECK_EQ(got.fallbacks[0].run_count, 2u);
  CHECK_EQ(got.fallbacks[0].cpu_ms, 500.0);
  CHECK_EQ(got.fallbacks[0].copy_overhead_bytes, 96u);
  CHECK_EQ(got.failed_count, 0u);
}

TEST(pending_work_is_awaited_until_it_completes) {
  Setup setup(0, 0, metal::OPERATION_STATS);
  CHECK_EQ(setup.profiler->wait_for_pending(), 0u);
  CHECK(setup.take().empty());  // nothing was encoded: nothing is committed
  for (const int& handle : kernels) {
    setup.profiler->begin_profile_kernel(&handle, "add");
    setup.profiler->end_profile_kernel(&handle);
  }
  std::thread gpu;
  setup.platform.on_synchronize_all = [&] {
    gpu = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      setup.platform.stream.complete(1, 0);
    });
  };
  CHECK_EQ(setup.profiler->wait_for_pending(600), 0u);
  gpu.join();
  CHECK_EQ(setup.profiler->statistics().pending_count, 0u);
}

TEST(tables_may_be_printed_without_waiting) {
  Setup setup(0, 0, metal::COPY_STATS);
  const metal::CopyEnd gpu{nullptr, nullptr, true};
  const uint64_t copy = setup.profiler->begin_profile_copy(gpu, gpu, 4);
  setup.profiler->end_profile_copy(copy, metal::SyncType::NONE);
  setup.profiler->log_statistics(false);
  CHECK_TEXTS(setup.take(), {"synchronize 0"});
  CHECK_EQ(setup.printed, std::string("There are no copies logged for profiling\n"));
  setup.platform.stream.complete(1, 0);
}
