// SPDX-License-Identifier: Apache-2.0
// A double of NVIDIA's driver, libcuda.so.1: the limits of a device of capability 9.0 with 128
// multiprocessors that hold 2048 threads, 32 blocks, 65536 registers and 228 kB of shared memory
// each, and of memory that moves 3352 GB/s.
#include <map>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  // Numbers of CUdevice_attribute in cuda.h.
  static const std::map<int, int> limits = {
      {16, 128},  {39, 2048},   {81, 233472}, {82, 65536}, {106, 32}, {1, 1024},     {12, 65536},
      {8, 49152}, {97, 232448}, {111, 1024},  {75, 9},     {76, 0},   {36, 2619000}, {37, 5120}};
  const auto at = limits.find(attribute);
  if (at == limits.end()) return 1;  // CUDA_ERROR_INVALID_VALUE
  *value = at->second;
  return 0;
}

EXPORTED int cuCtxSynchronize() {
  return 0;
}

// Streams of the double are (device + 1) << 24 | number, and contexts device + 1: as in
// fake_other_calls.hpp.
EXPORTED int cuStreamGetCtx(void* stream, void** context) {
  const unsigned long device = reinterpret_cast<unsigned long>(stream) >> 24;
  *context = reinterpret_cast<void*>(device != 0 ? device : 1);
  return 0;
}
