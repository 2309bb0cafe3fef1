// SPDX-License-Identifier: Apache-2.0
// The program that launches.py runs under callgrind: launches kernels through the double of
// libcupti (FASTPROF_CUPTI_LIBRARY) while the production backend collects them, and reads the
// collected records.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "core/device_backend.hpp"
#include "fastprof/fastprof.hpp"

using Launch = uint32_t (*)(const char*, uint32_t device, uint32_t stream, uint64_t time);

__attribute__((noinline)) static void launch_kernels(Launch launch, size_t count) {
  for (size_t i = 0; i < count; i += 50) {
    FASTPROF_RANGE("range");
    for (size_t j = 0; j < 50; ++j) launch("_Z4gemmPfS_i", 0, 7, 100);
  }
}

__attribute__((noinline)) static fastprof::Activities end_collection(
    fastprof::devices::DeviceBackend& backend, uint64_t number) {
  std::vector<std::string> problems;
  return backend.end(number, problems);
}

__attribute__((noinline)) static size_t stop_session(fastprof::Session& session) {
  return session.stop().size();
}

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const char* const double_path = std::getenv("FASTPROF_CUPTI_LIBRARY");
  void* const library = double_path != nullptr ? ::dlopen(double_path, RTLD_NOW) : nullptr;
  void* const found = library != nullptr ? ::dlsym(library, "fake_launch") : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "FASTPROF_CUPTI_LIBRARY is not the double of libcupti\n");
    return 2;
  }
  fastprof::devices::register_cuda_backend({});
  fastprof::devices::DeviceBackend& backend = *fastprof::devices::find_backend("CUDA");
  fastprof::SessionOptions options;
  options.categories |= fastprof::category::runtime | fastprof::category::device;
  fastprof::Session session(options);
  const uint64_t number = backend.begin({{"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime",
                                          "cuda_driver", "overhead", "gpu_user_annotation"}});
  session.start();
  launch_kernels(reinterpret_cast<Launch>(found), count);
  session.add_activities(end_collection(backend, number));
  const size_t rows = stop_session(session);
  std::printf("%zu rows\n", rows);
  return rows >= 2 * count ? 0 : 1;
}
