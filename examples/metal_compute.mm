// SPDX-License-Identifier: Apache-2.0
// Example: profile a compute kernel on a Mac's GPU. Prints a table with the GPU's time at exit, and
// writes a trace with the kernel below the range that launched it. In the root of the repository:
//
//   clang++ -std=c++17 -fobjc-arc -Icsrc/include -Icsrc examples/metal_compute.mm
//     csrc/backends/metal/{metal_platform,commit_observation}.mm csrc/backends/metal/torch_stream.cpp
//     -framework Foundation -framework Metal -o metal_compute
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <cstdio>
#include <iostream>

#include "backends/metal/metal_platform.hpp"
#include "fastprof/fastprof.hpp"
#include "fastprof/metal.hpp"

namespace metal = fastprof::metal;

static NSString* const kSource = @"kernel void double_all(device float* x [[buffer(0)]],"
                                  "                       uint i [[thread_position_in_grid]])"
                                  "{ x[i] *= 2; }";

int main() {
  @autoreleasepool {
    id<MTLDevice> device = MTLCreateSystemDefaultDevice();
    id<MTLCommandQueue> queue = [device newCommandQueue];
    NSError* error = nil;
    id<MTLLibrary> library = [device newLibraryWithSource:kSource options:nil error:&error];
    id<MTLFunction> function = [library newFunctionWithName:@"double_all"];
    id<MTLComputePipelineState> state = [device newComputePipelineStateWithFunction:function
                                                                              error:&error];
    constexpr NSUInteger kCount = 1 << 20;
    id<MTLBuffer> buffer = [device newBufferWithLength:kCount * sizeof(float)
                                               options:MTLResourceStorageModeShared];
    if (buffer == nil || state == nil) return std::puts("there is no GPU that supports Metal"), 1;
    float* const values = static_cast<float*>([buffer contents]);
    for (NSUInteger i = 0; i < kCount; ++i) values[i] = 1;

    metal::Platform& platform = metal::metal_platform();
    metal::Options options = metal::options_of_environment();
    options.log |= metal::OPERATION_STATS;
    const auto profiler = metal::Profiler::make(platform, options);
    metal::ExitReport::instance().arm(profiler);  // the table at exit
    const auto observed = std::make_shared<fastprof::MetalActivities>(platform);
    profiler->set_observer(observed);
    const uint64_t collection = observed->open();
    fastprof::Session session;
    session.start();
    const auto stream = metal::make_queue_stream((__bridge void*)queue);
    for (int step = 0; step < 3; ++step) {
      FASTPROF_RANGE("step");
      const void* handle = (__bridge void*)state;
      profiler->begin_profile_kernel(handle, "double_all", {}, stream.get());
      id<MTLCommandBuffer> commands = (__bridge id<MTLCommandBuffer>)stream->command_buffer();
      id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
      [encoder setComputePipelineState:state];
      [encoder setBuffer:buffer offset:0 atIndex:0];
      [encoder dispatchThreads:MTLSizeMake(kCount, 1, 1)
          threadsPerThreadgroup:MTLSizeMake(state.maxTotalThreadsPerThreadgroup, 1, 1)];
      [encoder endEncoding];
      profiler->end_profile_kernel(handle, stream.get(), metal::SyncType::COMMIT);
    }
    stream->synchronize(metal::SyncType::COMMIT_AND_WAIT);
    session.add_activities(observed->close(collection));
    session.stop();
    session.write_chrome_trace("metal_compute.json");
    std::cout << session.summary();
    return values[0] == 8 ? 0 : 1;
  }
}
