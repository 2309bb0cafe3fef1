// SPDX-License-Identifier: Apache-2.0
// Statistics of the Metal profiler: sums by operation, by kind of copy and by op that fell back to
// the CPU. Plain data; the profiler fills it and hands out copies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// One kernel or graph. Times are those of the command buffers that its runs ended with.
struct OperationStatistics {
  uint64_t profile_id = 0;  // unique among graphs, or among kernels
  bool is_graph = false;
  std::string name;  // with its tensors, as of the last run
  uint64_t run_count = 0;
  uint64_t completed_count = 0;  // runs whose times are in the sums
  double gpu_ms = 0;
  double scheduling_ms = 0;

  double mean_gpu_ms() const noexcept { return mean(gpu_ms); }
  double mean_scheduling_ms() const noexcept { return mean(scheduling_ms); }

 private:
  double mean(double sum) const noexcept {
    return run_count != 0 ? sum / static_cast<double>(run_count) : 0.0;
  }
};

// One op that was computed on the CPU.
struct FallbackStatistics {
  uint64_t profile_id = 0;
  std::string op_name;
  uint64_t run_count = 0;
  double cpu_ms = 0;
  uint64_t copy_overhead_bytes = 0;  // of all runs: tensors copied to the CPU and back

  double mean_cpu_ms() const noexcept {
    return run_count != 0 ? cpu_ms / static_cast<double>(run_count) : 0.0;
  }
};

// Kinds of copies, by where source and destination lie.
enum class CopyKind : uint8_t { mps_to_mps = 0, mps_to_cpu = 1, cpu_to_mps = 2 };
constexpr int kCopyKinds = 3;

constexpr const char* copy_kind_name(CopyKind kind) noexcept {
  constexpr const char* names[kCopyKinds] = {"MPS to MPS", "MPS to CPU", "CPU to MPS"};
  return names[static_cast<int>(kind)];
}

struct CopyStatistics {
  CopyKind kind = CopyKind::mps_to_mps;
  uint64_t count = 0;
  uint64_t bytes = 0;
  double gpu_ms = 0;
  double scheduling_ms = 0;   // of copies without a blitter: CPU time
  uint64_t scalar_count = 0;  // of at most kScalarBytes
  double scalar_gpu_ms = 0;
  uint64_t blocking_count = 0;
  uint64_t memcpy_count = 0;  // without a blitter

  double scalar_gpu_percent() const noexcept {
    return gpu_ms > 0 ? scalar_gpu_ms / gpu_ms * 100.0 : 0.0;
  }
};

// A copy of at most this many bytes is one of a scalar.
constexpr uint64_t kScalarBytes = sizeof(int64_t);

struct Statistics {
  std::vector<OperationStatistics> operations;  // in the order of their first runs
  std::vector<FallbackStatistics> fallbacks;    // likewise
  CopyStatistics copies[kCopyKinds] = {{CopyKind::mps_to_mps, 0, 0, 0, 0, 0, 0, 0, 0},
                                       {CopyKind::mps_to_cpu, 0, 0, 0, 0, 0, 0, 0, 0},
                                       {CopyKind::cpu_to_mps, 0, 0, 0, 0, 0, 0, 0, 0}};
  uint64_t graph_count = 0, kernel_count = 0, copy_count = 0, fallback_count = 0;
  uint64_t failed_count = 0;   // command buffers that the GPU did not complete
  uint64_t pending_count = 0;  // ended work whose command buffer has not completed yet
};

}  // namespace metal
FASTPROF_NAMESPACE_END
