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
