// SPDX-License-Identifier: Apache-2.0
// Buffers, functions and encoders of the double of Metal (fake_metal.mm), for examples that
// compute.
#pragma once

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <vector>

@interface FakeMemory : NSObject <MTLBuffer> {
  std::vector<char>* bytes_;
}
- (id)initWithLength:(NSUInteger)length;
@end

// A library, one of its functions, or a pipeline state of it: what counts is the name.
@interface FakeFunction : NSObject <MTLLibrary, MTLFunction, MTLComputePipelineState> {
  NSString* name_;
}
- (id)initWithName:(NSString*)name;
@end

// Work is done when it is encoded: tests look at it after the command buffer has completed.
@interface FakeEncoder : NSObject <MTLComputeCommandEncoder> {
  id function_;
  id<MTLBuffer> buffer_;
}
@end
