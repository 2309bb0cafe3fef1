// SPDX-License-Identifier: Apache-2.0
#include "fake_compute.h"

@implementation FakeMemory
- (id)initWithLength:(NSUInteger)length {
  if ((self = [super init])) bytes_ = new std::vector<char>(length);
  return self;
}
- (void)dealloc {
  delete bytes_;
  [super dealloc];
}
- (void*)contents {
  return bytes_->data();
}
- (NSUInteger)length {
  return bytes_->size();
}
@end

@implementation FakeFunction
- (id)initWithName:(NSString*)name {
  if ((self = [super init])) name_ = [name copy];
  return self;
}
- (void)dealloc {
  [name_ release];
  [super dealloc];
}
- (NSString*)name {
  return name_;
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)name {
  return [[FakeFunction alloc] initWithName:name];
}
- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return 1024;
}
@end

@implementation FakeEncoder
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  function_ = state;
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  if (offset == 0 && index == 0) buffer_ = buffer;
}
- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)group {
  // The one kernel that the double knows.
  if (group.width == 0 || ![[function_ name] isEqual:@"double_all"]) return;
  float* const values = static_cast<float*>([buffer_ contents]);
  for (NSUInteger i = 0; i < threads.width && i * sizeof(float) < [buffer_ length]; ++i)
    values[i] *= 2;
}
- (void)endEncoding {
}
@end
