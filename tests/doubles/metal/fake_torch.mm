// SPDX-License-Identifier: Apache-2.0
// A double of libtorch's Metal stream: functions with the mangled names that torch_stream.cpp looks
// for, over the double of Metal. A library of its own, loaded like libtorch.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#define FAKE_TORCH_EXPORT __attribute__((visibility("default")))

namespace at {
namespace mps {

enum class SyncType { NONE, COMMIT, COMMIT_AND_WAIT, COMMIT_AND_CONTINUE, COMMIT_ADAPTIVE };

class FAKE_TORCH_EXPORT MPSStream {
 public:
  explicit MPSStream(id<MTLCommandQueue> queue) : queue_(queue) {}
  id commandBuffer();
  void synchronize(SyncType sync);

 private:
  id<MTLCommandQueue> queue_;
  id<MTLCommandBuffer> buffer_ = nil;
};

id MPSStream::commandBuffer() {
  if (buffer_ == nil) buffer_ = [[queue_ commandBuffer] retain];
  return buffer_;
}

void MPSStream::synchronize(SyncType sync) {
  if (sync == SyncType::NONE || buffer_ == nil) return;
  [buffer_ commit];
  if (sync == SyncType::COMMIT_AND_WAIT) [buffer_ waitUntilCompleted];
  [buffer_ release];
  buffer_ = nil;
}

FAKE_TORCH_EXPORT MPSStream* getDefaultMPSStream();
MPSStream* getDefaultMPSStream() {
  static MPSStream* const only = [] {
    @autoreleasepool {
      const id<MTLDevice> device = [MTLCreateSystemDefaultDevice() autorelease];
      return new MPSStream([device newCommandQueue]);
    }
  }();
  return only;
}

}  // namespace mps
}  // namespace at
