// SPDX-License-Identifier: Apache-2.0
// The program that launches.py runs under callgrind beside launches.cpp: launches kernels through
// the double of libcupti while PyTorch's libkineto collects them, called as torch.profiler calls
// it.
//
//   kineto_launches COUNT
//
// As PyTorch does for each op, ids are pushed to CUPTI at its begin and end: one op for each
// launch, which is what eager PyTorch has most of. The stop takes the ops over and makes the list
// of activities that PyTorch then reads.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "ApproximateClock.h"
#include "libkineto.h"

// What libkineto asks of CUDA's runtime: there is one device.
extern "C" {
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp{};
  properties->multiProcessorCount = 128;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxThreadsPerBlock = 1024;
  properties->regsPerMultiprocessor = properties->regsPerBlock = 65536;
  properties->sharedMemPerMultiprocessor = properties->sharedMemPerBlock = 233472;
  properties->warpSize = 32;
  properties->major = 9;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "error";
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
}

using Launch = uint32_t (*)(const char*, uint32_t device, uint32_t stream, uint64_t time);

__attribute__((noinline)) static void launch_kernels(Launch launch, size_t count) {
  auto& profiler = libkineto::api().activityProfiler();
  for (size_t i = 0; i < count; ++i) {
    profiler.pushCorrelationId(i + 1);
    launch("_Z4gemmPfS_i", 0, 7, 100);
    profiler.popCorrelationId();
  }
}

// What PyTorch hands over of its ops: name, times, thread and id.
__attribute__((noinline)) static std::unique_ptr<libkineto::CpuTraceBuffer> ops_of(size_t count) {
  auto ops = std::make_unique<libkineto::CpuTraceBuffer>();
  ops->span.name = "PyTorch Profiler";
  ops->gpuOpCount = -1;
  for (size_t i = 0; i < count; ++i) {
    ops->emplace_activity(ops->span, libkineto::ActivityType::CPU_OP, "aten::op");
    auto& op = *ops->activities.back();
    op.id = static_cast<int32_t>(i + 1);
    op.device = libkineto::processId();
    op.resource = libkineto::systemThreadId();
  }
  return ops;
}

__attribute__((noinline)) static size_t stop_trace() {
  const auto trace = libkineto::api().activityProfiler().stopTrace();
  return trace->activities()->size();
}

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  void* const found = ::dlsym(RTLD_DEFAULT, "fake_launch");
  if (found == nullptr) {
    std::fprintf(stderr, "this program must be linked with the double of libcupti\n");
    return 2;
  }
  libkineto_init(/*cpuOnly=*/false, /*logOnError=*/true);
  libkineto::api().suppressLogMessages();
  libkineto::api().initProfilerIfRegistered();
  auto& profiler = libkineto::api().activityProfiler();
  using libkineto::ActivityType;
  profiler.prepareTrace({ActivityType::CPU_OP, ActivityType::USER_ANNOTATION,
                         ActivityType::EXTERNAL_CORRELATION, ActivityType::GPU_MEMCPY,
                         ActivityType::GPU_MEMSET, ActivityType::CONCURRENT_KERNEL,
                         ActivityType::CUDA_RUNTIME, ActivityType::CUDA_DRIVER,
                         ActivityType::OVERHEAD, ActivityType::GPU_USER_ANNOTATION});
  // PyTorch sets the conversion of tick counts, which libkineto has CUPTI stamp with.
  libkineto::ApproximateClockToUnixTimeConverter clock;
  profiler.startTrace();
  launch_kernels(reinterpret_cast<Launch>(found), count);
  profiler.transferCpuTrace(ops_of(count));
  libkineto::get_time_converter() = clock.makeConverter();
  const size_t rows = stop_trace();
  std::printf("%zu activities\n", rows);
  return rows >= 3 * count ? 0 : 1;
}
