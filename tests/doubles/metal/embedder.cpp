// SPDX-License-Identifier: Apache-2.0
// A library with Metal code of its own, as a program of somebody else may bring it into a Python
// process: it has fastprof's headers, its own Profiler, and nothing of the Python package.
#include <memory>
#include <string>

#include "backends/metal/metal_platform.hpp"
#include "fastprof/annotate.hpp"
#include "fastprof/metal.hpp"

namespace metal = fastprof::metal;

namespace {

struct Embedder {
  std::shared_ptr<metal::Profiler> profiler =
      metal::Profiler::make(metal::metal_platform(), metal::Options());
  std::unique_ptr<metal::QueueStream> stream;
};
Embedder* embedder = nullptr;

}  // namespace

extern "C" {

// queue: an id<MTLCommandQueue>.
__attribute__((visibility("default"))) void embedder_open(void* queue) {
  embedder = new Embedder;
  embedder->profiler->label_buffers(true);
  embedder->stream = metal::make_queue_stream(queue);
}

// Encodes two kernels and a copy into one command buffer, a third kernel into another.
__attribute__((visibility("default"))) void embedder_step() {
  FASTPROF_RANGE("embedder step");
  metal::Profiler& profiler = *embedder->profiler;
  metal::Stream* const stream = embedder->stream.get();
  for (const char* name : {"scale", "add"}) {
    profiler.begin_profile_kernel(name, name, {}, stream);
    profiler.end_profile_kernel(name, stream, metal::SyncType::NONE);
  }
  int from[4] = {}, to[4] = {};
  const uint64_t copy =
      profiler.begin_profile_copy({from, nullptr, true}, {to, nullptr, false}, sizeof from, stream);
  profiler.end_profile_copy(copy, metal::SyncType::COMMIT, stream);
  profiler.begin_profile_kernel("sum", "sum", {}, stream);
  profiler.end_profile_kernel("sum", stream, metal::SyncType::COMMIT_AND_WAIT);
}

}  // extern "C"
