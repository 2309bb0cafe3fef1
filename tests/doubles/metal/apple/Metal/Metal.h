// SPDX-License-Identifier: Apache-2.0
// The part of Apple's Metal framework that fastprof calls, declared by us from its documentation,
// for building csrc/backends/metal where the framework does not exist. test_metal_headers.py
// compares it with the framework's metadata.
#pragma once

#import <Foundation/Foundation.h>

typedef double CFTimeInterval;

typedef NS_ENUM(NSUInteger, MTLCommandBufferStatus) {
  MTLCommandBufferStatusNotEnqueued = 0,
  MTLCommandBufferStatusEnqueued = 1,
  MTLCommandBufferStatusCommitted = 2,
  MTLCommandBufferStatusScheduled = 3,
  MTLCommandBufferStatusCompleted = 4,
  MTLCommandBufferStatusError = 5,
};

typedef NS_ENUM(NSInteger, MTLCaptureDestination) {
  MTLCaptureDestinationDeveloperTools = 1,
  MTLCaptureDestinationGPUTraceDocument = 2,
};

typedef NS_ENUM(NSUInteger, MTLResourceOptions) {
  MTLResourceStorageModeShared = 0,
};

typedef struct {
  NSUInteger width, height, depth;
} MTLSize;

static inline MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
  MTLSize size = {width, height, depth};
  return size;
}

@class MTLCompileOptions;
@protocol MTLDevice;
@protocol MTLCommandQueue;
@protocol MTLCommandBuffer;

typedef void (^MTLCommandBufferHandler)(id<MTLCommandBuffer>);

@protocol MTLBuffer <NSObject>
- (void*)contents;
- (NSUInteger)length;
@end

@protocol MTLFunction <NSObject>
- (NSString*)name;
@end

@protocol MTLLibrary <NSObject>
- (id<MTLFunction>)newFunctionWithName:(NSString*)name;
@end

@protocol MTLComputePipelineState <NSObject>
- (NSUInteger)maxTotalThreadsPerThreadgroup;
@end

@protocol MTLComputeCommandEncoder <NSObject>
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)group;
- (void)endEncoding;
@end

@protocol MTLDevice <NSObject>
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source
                               options:(MTLCompileOptions*)options
                                 error:(NSError**)error;
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                                             error:(NSError**)error;
- (NSString*)name;
- (uint64_t)registryID;
- (id<MTLCommandQueue>)newCommandQueue;
@end

@protocol MTLCommandQueue <NSObject>
- (NSString*)label;
- (void)setLabel:(NSString*)label;
- (id<MTLDevice>)device;
- (id<MTLCommandBuffer>)commandBuffer;
@end

@protocol MTLCommandBuffer <NSObject>
- (id<MTLDevice>)device;
- (id<MTLCommandQueue>)commandQueue;
- (NSString*)label;
- (void)setLabel:(NSString*)label;
- (id<MTLComputeCommandEncoder>)computeCommandEncoder;
- (void)commit;
- (void)addScheduledHandler:(MTLCommandBufferHandler)block;
- (void)addCompletedHandler:(MTLCommandBufferHandler)block;
- (void)waitUntilCompleted;
- (MTLCommandBufferStatus)status;
- (NSError*)error;
- (CFTimeInterval)kernelStartTime;
- (CFTimeInterval)kernelEndTime;
- (CFTimeInterval)GPUStartTime;
- (CFTimeInterval)GPUEndTime;
@end

@interface MTLCaptureDescriptor : NSObject {
  id captureObject_;
  MTLCaptureDestination destination_;
  NSURL* outputURL_;
}
- (id)captureObject;
- (void)setCaptureObject:(id)object;
- (MTLCaptureDestination)destination;
- (void)setDestination:(MTLCaptureDestination)destination;
- (NSURL*)outputURL;
- (void)setOutputURL:(NSURL*)url;
@end

@interface MTLCaptureManager : NSObject
+ (MTLCaptureManager*)sharedCaptureManager;
- (BOOL)supportsDestination:(MTLCaptureDestination)destination;
- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor*)descriptor error:(NSError**)error;
- (void)stopCapture;
- (BOOL)isCapturing;
@end

#ifdef __cplusplus
extern "C" {
#endif
id<MTLDevice> MTLCreateSystemDefaultDevice(void) __attribute__((ns_returns_retained));
NSArray* MTLCopyAllDevices(void) __attribute__((ns_returns_retained));
#ifdef __cplusplus
}
#endif
