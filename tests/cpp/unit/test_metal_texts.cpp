// SPDX-License-Identifier: Apache-2.0
// The Metal profiler's numbers, defaults, texts and tables.
#include <cstdint>
#include <memory>
#include <string>

#include "fastprof/metal/buffer_texts.hpp"
#include "fastprof/metal/observer.hpp"
#include "fastprof/metal/platform.hpp"
#include "fastprof/metal/statistics.hpp"
#include "fastprof/metal/tables.hpp"
#include "fastprof/metal/texts.hpp"
#include "fastprof/metal/trace_settings.hpp"
#include "metal_setup.hpp"

using namespace metal_checks;

namespace {

metal::OperationStatistics operation(uint64_t id, const char* name, uint64_t runs, double gpu_ms) {
  metal::OperationStatistics made;
  made.profile_id = id;
  made.name = name;
  made.run_count = runs;
  made.gpu_ms = gpu_ms;
  return made;
}

size_t position(const std::string& text, const char* part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) check::fail(__FILE__, __LINE__, std::string("no ") + part);
  return at;
}

}  // namespace

// Platforms, observers and PyTorch have these numbers as well.
TEST(enumerators_have_fixed_numbers) {
  CHECK_EQ(static_cast<int>(metal::SyncType::NONE), 0);
  CHECK_EQ(static_cast<int>(metal::SyncType::COMMIT), 1);
  CHECK_EQ(static_cast<int>(metal::SyncType::COMMIT_AND_WAIT), 2);
  CHECK_EQ(static_cast<int>(metal::SyncType::COMMIT_AND_CONTINUE), 3);
  CHECK_EQ(static_cast<int>(metal::SyncType::COMMIT_ADAPTIVE), 4);
  CHECK_EQ(static_cast<int>(metal::SignpostLog::events), 0);
  CHECK_EQ(static_cast<int>(metal::SignpostLog::intervals), 1);
  CHECK_EQ(static_cast<int>(metal::SignpostName::operation), 0);
  CHECK_EQ(static_cast<int>(metal::SignpostName::copy), 1);
  CHECK_EQ(static_cast<int>(metal::SignpostName::cpu_fallback), 2);
  CHECK_EQ(static_cast<int>(metal::SignpostName::range), 3);
  CHECK_EQ(static_cast<int>(metal::WorkKind::graph), 0);
  CHECK_EQ(static_cast<int>(metal::WorkKind::kernel), 1);
  CHECK_EQ(static_cast<int>(metal::WorkKind::copy), 2);
  CHECK_EQ(static_cast<int>(metal::WorkKind::cpu_fallback), 3);
  CHECK_EQ(static_cast<int>(metal::CopyKind::mps_to_mps), 0);
  CHECK_EQ(static_cast<int>(metal::CopyKind::mps_to_cpu), 1);
  CHECK_EQ(static_cast<int>(metal::CopyKind::cpu_to_mps), 2);
  CHECK_EQ(metal::kCopyKinds, 3);
  CHECK_EQ(metal::kScalarBytes, 8u);
  CHECK_EQ(metal::kOperations, 1u);
  CHECK_EQ(metal::kCopies, 2u);
  CHECK_EQ(metal::kFallbacks, 4u);
}

TEST(works_queues_and_times_begin_without_data) {
  const metal::Work work;
  CHECK(work.kind == metal::WorkKind::kernel && work.copy_kind == metal::CopyKind::mps_to_mps);
  CHECK_EQ(work.profile_id, 0u);
  CHECK_EQ(work.bytes, 0u);
  CHECK(work.on_gpu && !work.is_commit);
  const metal::Queue queue;
  CHECK_EQ(queue.id, 0u);
  CHECK_EQ(queue.device_index, 0);
  const metal::BufferTimes times;
  CHECK_EQ(times.gpu_start_s, 0.0);
  CHECK_EQ(times.gpu_end_s, 0.0);
  CHECK_EQ(times.kernel_start_s, 0.0);
  CHECK_EQ(times.kernel_end_s, 0.0);
  CHECK_EQ(times.buffer, 0u);
  const metal::CopyEnd end;
  CHECK(!end.on_device && !end.lies_on_device());
}

TEST(statistics_begin_with_zeroes) {
  const metal::OperationStatistics operation;
  CHECK_EQ(operation.profile_id, 0u);
  CHECK(!operation.is_graph);
  CHECK_EQ(operation.run_count, 0u);
  CHECK_EQ(operation.completed_count, 0u);
  CHECK_EQ(operation.gpu_ms, 0.0);
  CHECK_EQ(operation.scheduling_ms, 0.0);
  const metal::FallbackStatistics fallback;
  CHECK_EQ(fallback.profile_id, 0u);
  CHECK_EQ(fallback.run_count, 0u);
  CHECK_EQ(fallback.cpu_ms, 0.0);
  CHECK_EQ(fallback.copy_overhead_bytes, 0u);
  const metal::Statistics all;
  CHECK_EQ(all.graph_count, 0u);
  CHECK_EQ(all.kernel_count, 0u);
  CHECK_EQ(all.copy_count, 0u);
  CHECK_EQ(all.fallback_count, 0u);
  CHECK_EQ(all.failed_count, 0u);
  CHECK_EQ(all.pending_count, 0u);
  const metal::CopyStatistics fresh;
  CHECK(fresh.kind == metal::CopyKind::mps_to_mps);
  CHECK(all.copies[0].kind == metal::CopyKind::mps_to_mps);
  CHECK(all.copies[1].kind == metal::CopyKind::mps_to_cpu);
  CHECK(all.copies[2].kind == metal::CopyKind::cpu_to_mps);
  for (const metal::CopyStatistics* each :
       {&fresh, &all.copies[0], &all.copies[1], &all.copies[2]}) {
    CHECK_EQ(each->count, 0u);
    CHECK_EQ(each->bytes, 0u);
    CHECK_EQ(each->gpu_ms, 0.0);
    CHECK_EQ(each->scheduling_ms, 0.0);
    CHECK_EQ(each->scalar_count, 0u);
    CHECK_EQ(each->scalar_gpu_ms, 0.0);
    CHECK_EQ(each->blocking_count, 0u);
    CHECK_EQ(each->memcpy_count, 0u);
    CHECK_EQ(each->scalar_gpu_percent(), 0.0);
  }
}

TEST(means_are_by_run_and_percents_of_the_gpu_time) {
  metal::OperationStatistics operation;
  operation.gpu_ms = 6;
  operation.scheduling_ms = 3;
  CHECK_EQ(operation.mean_gpu_ms(), 0.0);
  operation.run_count = 1;
  CHECK_EQ(operation.mean_gpu_ms(), 6.0);
  operation.run_count = 4;
  CHECK_EQ(operation.mean_gpu_ms(), 1.5);
  CHECK_EQ(operation.mean_scheduling_ms(), 0.75);
  metal::FallbackStatistics fallback;
  fallback.cpu_ms = 5;
  CHECK_EQ(fallback.mean_cpu_ms(), 0.0);
  fallback.run_count = 1;
  CHECK_EQ(fallback.mean_cpu_ms(), 5.0);
  fallback.run_count = 2;
  CHECK_EQ(fallback.mean_cpu_ms(), 2.5);
  metal::CopyStatistics copy;
  copy.gpu_ms = 0.5;
  copy.scalar_gpu_ms = 0.125;
  CHECK_EQ(copy.scalar_gpu_percent(), 25.0);
}

TEST(times_of_a_buffer_are_durations_or_nothing) {
  metal::BufferTimes times;
  times.gpu_start_s = 2;
  times.gpu_end_s = 2.5;
  times.kernel_start_s = 1;
  times.kernel_end_s = 1.25;
  CHECK_EQ(times.gpu_ms(), 500.0);
  CHECK_EQ(times.kernel_ms(), 250.0);
  times.gpu_end_s = 1;  // the clock was set back
  times.kernel_end_s = 1;
  CHECK_EQ(times.gpu_ms(), 0.0);
  CHECK_EQ(times.kernel_ms(), 0.0);
}

TEST(scalar_types_have_the_names_of_pytorch) {
  struct Case {
    DType dtype;
    const char* name;
  };
  const Case cases[] = {{DType::uint8, "Byte"},
                        {DType::int8, "Char"},
                        {DType::int16, "Short"},
                        {DType::int32, "Int"},
                        {DType::int64, "Long"},
                        {DType::float16, "Half"},
                        {DType::float32, "Float"},
                        {DType::float64, "Double"},
                        {DType::complex32, "ComplexHalf"},
                        {DType::complex64, "ComplexFloat"},
                        {DType::complex128, "ComplexDouble"},
                        {DType::boolean, "Bool"},
                        {DType::bfloat16, "BFloat16"},
                        {DType::uint16, "UInt16"},
                        {DType::uint32, "UInt32"},
                        {DType::uint64, "UInt64"},
                        {DType::qint8, "qint8"}};
  for (const Case& each : cases)
    CHECK_EQ(std::string(metal::scalar_type_name(each.dtype)), std::string(each.name));
}

TEST(numbers_sizes_and_times_as_texts) {
  CHECK_EQ(metal::fixed_text(1.0625, 3), std::string("1.062"));
  CHECK_EQ(metal::fixed_text(5, 0), std::string("5"));
  // 63 characters fit beside the 0 at the end, 64 do not.
  CHECK_EQ(metal::fixed_text(1e59, 3).size(), 63u);
  CHECK_EQ(metal::fixed_text(1e60, 3), std::string("huge"));

  struct Case {
    uint64_t bytes;
    const char* text;
  };
  const Case cases[] = {{0, "0 bytes"},          {1023, "1023 bytes"},   {1024, "1024 bytes"},
                        {1025, "1.00 KB"},       {1536, "1.50 KB"},      {1048576, "1024.00 KB"},
                        {1048577, "1.00 MB"},    {3145728, "3.00 MB"},   {1073741824, "1024.00 MB"},
                        {1073741825, "1.00 GB"}, {2415919104, "2.25 GB"}};
  for (const Case& each : cases) CHECK_EQ(metal::size_text(each.bytes), std::string(each.text));

  CHECK(metal::times_text(0, 0, "KRNL").empty());
  CHECK_EQ(metal::times_text(0.25, 0, "KRNL"), std::string("[GPU=0.250 ms]"));
  CHECK_EQ(metal::times_text(0, 0.5, "CPU"), std::string("[CPU=0.500 ms]"));
  CHECK_EQ(metal::times_text(0.25, 0.5, "KRNL"), std::string("[GPU=0.250 ms, KRNL=0.500 ms]"));
}

TEST(tensors_and_memory_as_texts) {
  CHECK_EQ(metal::device_text(DeviceType::MPS), std::string("MPS"));
  CHECK_EQ(metal::device_text(DeviceType::LAZY), std::string("LAZY"));  // from a to z
  const int64_t shapes[] = {1, 5, 7};
  TensorDescription one = tensor(DeviceType::MPS, DType::int16);
  CHECK_EQ(metal::tensor_text(one, 0), std::string("MPS:Short[2, 3]"));
  CHECK_EQ(metal::tensor_text(one, 1), std::string("MPS(buf#1):Short[2, 3]"));
  one.shape = {shapes, 3};
  CHECK_EQ(metal::tensor_text(one, 0), std::string("MPS:Short[1, 5, 7]"));
  one.shape = {shapes, 1};
  CHECK_EQ(metal::tensor_text(one, 0), std::string("MPS:Short[1]"));
  one.shape = {};
  CHECK_EQ(metal::tensor_text(one, 0), std::string("MPS:Short[]"));
  one.dtype = DType::undefined;
  CHECK_EQ(metal::tensor_text(one, 7), std::string("undefined"));
  const auto* const address = reinterpret_cast<const void*>(uintptr_t{0x10e4c0000});
  CHECK_EQ(metal::memory_text(address, true), std::string("MPS:0x10e4c0000"));
  CHECK_EQ(metal::memory_text(address, false), std::string("CPU:0x10e4c0000"));
}

TEST(bytes_of_a_tensor) {
  const int64_t sizes[] = {1, 3, 0, -2};
  TensorDescription one = tensor(DeviceType::MPS, DType::float64);
  CHECK_EQ(metal::size_bytes(one), 48u);
  one.shape = {sizes, 2};  // a size of 1
  CHECK_EQ(metal::size_bytes(one), 24u);
  one.shape = {sizes, 3};
  CHECK_EQ(metal::size_bytes(one), 0u);
  one.shape = {sizes + 3, 1};
  CHECK_EQ(metal::size_bytes(one), 0u);
  one.shape = {};
  CHECK_EQ(metal::size_bytes(one), 8u);
  one.dtype = DType::undefined;
  CHECK_EQ(metal::size_bytes(one), 0u);
}

TEST(an_odd_space_is_after_a_centred_text) {
  CHECK_EQ(metal::centred("ab", 5), std::string(" ab  "));
  CHECK_EQ(metal::centred("ab", 4, '-'), std::string("-ab-"));
  CHECK_EQ(metal::centred("ab", 3), std::string("ab "));
  CHECK_EQ(metal::centred("ab", 2), std::string("ab"));
  CHECK_EQ(metal::centred("abc", 2), std::string("abc"));
}

TEST(copy_ends_are_described_by_their_tensors_or_addresses) {
  const char memory[2] = {};
  const TensorDescription on_gpu = tensor(DeviceType::MPS, DType::int8, &memory[0]);
  const TensorDescription on_cpu = tensor(DeviceType::CPU, DType::int8, &memory[1]);
  // A tensor says where the memory lies, whatever the flag says.
  CHECK((metal::CopyEnd{nullptr, &on_gpu, false}).lies_on_device());
  CHECK(!(metal::CopyEnd{nullptr, &on_cpu, true}).lies_on_device());
  CHECK((metal::CopyEnd{nullptr, nullptr, true}).lies_on_device());
  metal::BufferTexts texts;
  const metal::CopyEnd gpu{nullptr, &on_gpu, false}, cpu{nullptr, &on_cpu, false};
  CHECK_EQ(texts.of_copy(gpu, cpu, 0), std::string("MPS:Char[2, 3] --> CPU:Char[2, 3]"));
  CHECK_EQ(texts.of_copy(cpu, gpu, metal::INCLUDE_BUFFER_ID),
           std::string("CPU:Char[2, 3] --> MPS(buf#1):Char[2, 3]"));
  CHECK_EQ(texts.of_copy({nullptr, nullptr, true}, {reinterpret_cast<const void*>(16)}, 0),
           std::string("MPS:0x0 --> CPU:0x10"));
}

TEST(rows_are_in_the_order_of_means_and_equal_ones_stay) {
  metal::Statistics all;
  all.operations = {operation(1, "small", 1, 0.5), operation(2, "first equal", 2, 4),
                    operation(3, "second equal", 1, 2), operation(4, "large", 1, 3)};
  const std::string text = metal::operations_table(all);
  CHECK(position(text, "large") < position(text, "first equal"));
  CHECK(position(text, "first equal") < position(text, "second equal"));
  CHECK(position(text, "second equal") < position(text, "small"));

  metal::FallbackStatistics op;
  for (const char* name : {"aten::a", "aten::b", "aten::c"}) {
    op.op_name = name;
    ++op.profile_id;
    op.run_count += 2;
    op.cpu_ms += 4;
    op.copy_overhead_bytes += 512;
    all.fallbacks.push_back(op);
  }
  all.fallbacks[2].cpu_ms = 24;
  const std::string fallbacks = metal::fallbacks_table(all);
  position(fallbacks, " Total 12 Runs, 36.00 ms, 3.00 KB Copies ");
  CHECK(position(fallbacks, "aten::c") < position(fallbacks, "aten::a"));
  CHECK(position(fallbacks, "aten::a") < position(fallbacks, "aten::b"));
}

TEST(kinds_of_copies_have_rows_if_there_were_any) {
  metal::Statistics all;
  all.copies[0].count = 1;
  all.copies[0].bytes = 10;
  all.copies[2].count = 2;
  all.copies[2].bytes = 20;
  all.copies[2].scalar_count = 1;
  const std::string text = metal::copies_table(all);
  position(text, " MPS Copy Profiling: 3 total copies (30 bytes), 1 scalar copies ");
  CHECK(position(text, "MPS to MPS") < position(text, "CPU to MPS"));
  CHECK_EQ(text.find("MPS to CPU"), std::string::npos);
}

TEST(each_table_is_asked_for_by_itself) {
  const metal::Statistics none;
  const std::string operations = "There are no MPS operations logged for profiling\n";
  const std::string fallbacks = "There are no CPU Fallbacks logged for profiling\n";
  const std::string copies = "There are no copies logged for profiling\n";
  CHECK(metal::tables_text(none, 0).empty());
  CHECK_EQ(metal::tables_text(none, metal::OPERATION_STATS), operations);
  CHECK_EQ(metal::tables_text(none, metal::CPU_FALLBACK_STATS), fallbacks);
  CHECK_EQ(metal::tables_text(none, metal::COPY_STATS), copies);
  CHECK_EQ(metal::tables_text(
               none, metal::COPY_STATS | metal::CPU_FALLBACK_STATS | metal::OPERATION_STATS),
           operations + fallbacks + copies);
}

TEST(settings_say_which_work_is_wanted) {
  fakes::FakePlatform platform;
  const auto wanted = [](const metal::TraceSettings& settings) {
    return (settings.wants(metal::kOperations) ? 1 : 0) + (settings.wants(metal::kCopies) ? 2 : 0) +
           (settings.wants(metal::kFallbacks) ? 4 : 0);
  };
  struct Case {
    metal::Options options;
    int wanted;
  };
  const Case cases[] = {{{}, 0},
                        {{0, metal::RUN_OPERATION, 0}, 1},
                        {{0, metal::BLIT_COPY, 0}, 2},
                        {{0, metal::CPU_FALLBACK, 0}, 4},
                        {{0, metal::BLIT_COPY, metal::OPERATION_INFO}, 3}};
  for (const Case& each : cases) {
    metal::TraceSettings settings(platform, each.options);
    CHECK_EQ(wanted(settings), each.wanted);
    CHECK(!settings.labels_buffers());
    settings.label_buffers(true);
    CHECK(settings.labels_buffers());
    CHECK_EQ(wanted(settings), 7);
    settings.label_buffers(false);
    CHECK_EQ(wanted(settings), each.wanted);
  }
}

TEST(log_options_outlive_traces) {
  Setup setup(0, 0, metal::COPY_INFO);
  metal::Profiler& profiler = *setup.profiler;
  CHECK(profiler.is_copy_profiling_enabled() && !profiler.is_operation_profiling_enabled());
  CHECK(!profiler.is_cpu_fallback_profiling_enabled() && !profiler.is_signpost_tracing_enabled());
  profiler.start_trace("event", false);
  CHECK(profiler.is_signpost_tracing_enabled() && profiler.is_cpu_fallback_profiling_enabled());
  CHECK_EQ(profiler.options().log, uint32_t{metal::COPY_INFO | metal::INCLUDE_GPU_TIME});
  CHECK_EQ(profiler.options().profile, uint32_t{metal::ALL_SIGNPOST_EVENTS | metal::USE_EVENTS});
  profiler.set_log_options(metal::OPERATION_INFO);  // the trace goes on
  CHECK_EQ(profiler.options().log, uint32_t{metal::OPERATION_INFO | metal::INCLUDE_GPU_TIME});
  CHECK(profiler.is_signpost_tracing_enabled());
  CHECK_THROWS(fastprof::ValueError, profiler.set_log_options(1024));
  profiler.stop_trace();
  CHECK_EQ(profiler.options().log, uint32_t{metal::OPERATION_INFO});
  CHECK_EQ(profiler.options().profile, 0u);
  CHECK(profiler.is_operation_profiling_enabled() && !profiler.is_copy_profiling_enabled());
}

TEST(only_logs_that_are_used_are_opened) {
  fakes::FakePlatform platform;
  platform.opens_logs = false;
  // A way without types traces nothing.
  metal::Profiler::make(platform, {metal::USE_EVENTS | metal::USE_INTERVALS, 0, 0});
  CHECK(platform.log.empty());
  platform.opens_logs = true;
  metal::Profiler::make(platform, {metal::USE_EVENTS, metal::BLIT_COPY, 0});
  metal::Profiler::make(platform, {metal::USE_INTERVALS, metal::BLIT_COPY, 0});
  CHECK_TEXTS(platform.log, {"open events", "open intervals"});
}
