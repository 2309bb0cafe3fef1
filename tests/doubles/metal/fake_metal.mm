// SPDX-License-Identifier: Apache-2.0
// A double of Apple's Metal, os_log, os_signpost and mach time, for Linux with GNUstep. One thread
// is the GPU: it runs command buffers in the order of their commits and calls their handlers.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#include <mach/mach_time.h>
#include <os/log.h>
#include <os/signpost.h>
#include <sys/stat.h>
#include <time.h>

#include <Block.h>

#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_compute.h"
#include "fake_metal.h"

struct fake_os_log {
  std::string category;
};

namespace {

// Ticks of the double's clock are 41.67 ns, as on Apple's processors.
constexpr uint32_t kNumerator = 125, kDenominator = 3;

double seconds() {
  return static_cast<double>(mach_absolute_time()) * kNumerator / kDenominator * 1e-9;
}

struct World {
  std::mutex lock;
  std::condition_variable changed;
  int devices = 1;
  double gpu_ms = 1, kernel_ms = 0.1;
  std::string failure;
  bool held = false;
  bool supports_captures = true;
  std::string capture_failure;
  bool capturing = false;
  std::string capture_path;
  int captured = 0;
  bool signposts_watched = true;
  uint64_t signpost_ids = 0;
  int live_buffers = 0;
  std::string log, taken;
  std::deque<id> committed;  // command buffers, retained
  bool started = false;

  void note(const std::string& line) {
    const std::lock_guard<std::mutex> hold(lock);
    log += line + "\n";
  }
};

World& world() {
  static auto* const only = new World;  // its thread runs until the process ends
  return *only;
}

std::string text_of(NSString* text) {
  return text != nil && [text UTF8String] != nullptr ? [text UTF8String] : "";
}

}  // namespace

@interface FakeDevice : NSObject <MTLDevice> {
  uint64_t number_;
}
- (id)initWithNumber:(uint64_t)number;
@end

@interface FakeQueue : NSObject <MTLCommandQueue> {
  id<MTLDevice> device_;
  NSString* label_;
}
- (id)initWithDevice:(id<MTLDevice>)device;
@end

// State of a command buffer beside its queue and label.
struct BufferState {
  std::mutex lock;
  std::condition_variable changed;
  MTLCommandBufferStatus status = MTLCommandBufferStatusNotEnqueued;
  std::vector<MTLCommandBufferHandler> scheduled, completed;  // copied blocks
  double kernel_start = 0, kernel_end = 0, gpu_start = 0, gpu_end = 0;
  double gpu_ms = 0, kernel_ms = 0;
  std::string failure;
};

@interface FakeBuffer : NSObject <MTLCommandBuffer> {
  id<MTLCommandQueue> queue_;
  NSString* label_;
  BufferState* state_;
}
- (id)initWithQueue:(id<MTLCommandQueue>)queue;
- (void)runOnGpu;
@end

namespace {

std::vector<MTLCommandBufferHandler> taken(BufferState* state, bool scheduled) {
  const std::lock_guard<std::mutex> hold(state->lock);
  return std::exchange(scheduled ? state->scheduled : state->completed, {});
}

void call(const std::vector<MTLCommandBufferHandler>& blocks, id<MTLCommandBuffer> buffer) {
  for (MTLCommandBufferHandler block : blocks) {
    block(buffer);
    Block_release(block);
  }
}

void run_gpu() {
  GSRegisterCurrentThread();
  World& all = world();
  for (;;) {
    id buffer = nil;
    {
      std::unique_lock<std::mutex> hold(all.lock);
      all.changed.wait(hold, [&all] { return !all.held && !all.committed.empty(); });
      buffer = all.committed.front();
      all.committed.pop_front();
    }
    @autoreleasepool {
      [buffer runOnGpu];
      [buffer release];
    }
  }
}

void sleep_ms(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

@implementation FakeDevice
- (id)initWithNumber:(uint64_t)number {
  if ((self = [super init])) number_ = number;
  return self;
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  (void)options;
  return [[FakeMemory alloc] initWithLength:length];
}
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source
                               options:(MTLCompileOptions*)options
                                 error:(NSError**)error {
  (void)options, (void)error;
  return [[FakeFunction alloc] initWithName:source];
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                                             error:(NSError**)error {
  (void)error;
  return [[FakeFunction alloc] initWithName:[function name]];
}
- (NSString*)name {
  return [NSString stringWithFormat:@"Fake GPU %d", (int)number_];
}
- (uint64_t)registryID {
  return 1000 + number_;
}
- (id<MTLCommandQueue>)newCommandQueue {
  return [[FakeQueue alloc] initWithDevice:self];
}
@end

@implementation FakeQueue
- (id)initWithDevice:(id<MTLDevice>)device {
  if ((self = [super init])) device_ = [device retain];
  return self;
}
- (void)dealloc {
  [device_ release];
  [label_ release];
  [super dealloc];
}
- (NSString*)label {
  return label_;
}
- (void)setLabel:(NSString*)label {
  [label_ release];
  label_ = [label copy];
}
- (id<MTLDevice>)device {
  return device_;
}
- (id<MTLCommandBuffer>)commandBuffer {
  return [[[FakeBuffer alloc] initWithQueue:self] autorelease];
}
@end

@implementation FakeBuffer
- (id)initWithQueue:(id<MTLCommandQueue>)queue {
  if ((self = [super init])) {
    queue_ = [queue retain];
    state_ = new BufferState;
    const std::lock_guard<std::mutex> hold(world().lock);
    ++world().live_buffers;
  }
  return self;
}
- (void)dealloc {
  {
    const std::lock_guard<std::mutex> hold(world().lock);
    --world().live_buffers;
  }
  for (MTLCommandBufferHandler block : state_->scheduled) Block_release(block);
  for (MTLCommandBufferHandler block : state_->completed) Block_release(block);
  delete state_;
  [label_ release];
  [queue_ release];
  [super dealloc];
}
- (id<MTLDevice>)device {
  return [queue_ device];
}
- (id<MTLCommandQueue>)commandQueue {
  return queue_;
}
- (NSString*)label {
  return label_;
}
- (void)setLabel:(NSString*)label {
  [label_ release];
  label_ = [label copy];
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  return [[[FakeEncoder alloc] init] autorelease];
}
- (void)refuseAfterCommit:(const char*)what {
  // As Metal's validation does.
  if (state_->status < MTLCommandBufferStatusCommitted) return;
  std::fprintf(stderr, "fake Metal: %s after commit\n", what);
  std::abort();
}
- (void)addScheduledHandler:(MTLCommandBufferHandler)block {
  const std::lock_guard<std::mutex> hold(state_->lock);
  [self refuseAfterCommit:"addScheduledHandler"];
  state_->scheduled.push_back(Block_copy(block));
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
  const std::lock_guard<std::mutex> hold(state_->lock);
  [self refuseAfterCommit:"addCompletedHandler"];
  state_->completed.push_back(Block_copy(block));
}
- (void)commit {
  World& all = world();
  {
    const std::lock_guard<std::mutex> hold(state_->lock);
    [self refuseAfterCommit:"commit"];
    state_->status = MTLCommandBufferStatusCommitted;
  }
  const std::lock_guard<std::mutex> hold(all.lock);
  state_->gpu_ms = all.gpu_ms;
  state_->kernel_ms = all.kernel_ms;
  state_->failure = std::exchange(all.failure, {});
  if (all.capturing) ++all.captured;
  all.committed.push_back([self retain]);
  if (!std::exchange(all.started, true)) std::thread(run_gpu).detach();
  all.changed.notify_all();
}
- (void)runOnGpu {
  {
    const std::lock_guard<std::mutex> hold(state_->lock);
    state_->kernel_start = seconds();
  }
  sleep_ms(state_->kernel_ms);
  {
    const std::lock_guard<std::mutex> hold(state_->lock);
    state_->kernel_end = seconds();
    state_->status = MTLCommandBufferStatusScheduled;
  }
  call(taken(state_, true), self);
  const double begin = seconds();
  sleep_ms(state_->gpu_ms);
  {
    const std::lock_guard<std::mutex> hold(state_->lock);
    if (state_->failure.empty()) {
      state_->gpu_start = begin;
      state_->gpu_end = seconds();
      state_->status = MTLCommandBufferStatusCompleted;
    } else {
      state_->status = MTLCommandBufferStatusError;
    }
  }
  call(taken(state_, false), self);
  {
    const std::lock_guard<std::mutex> hold(state_->lock);
    state_->changed.notify_all();
  }
}
- (void)waitUntilCompleted {
  std::unique_lock<std::mutex> hold(state_->lock);
  // Handlers run before the wait ends, as in Metal.
  state_->changed.wait(hold, [self] {
    return state_->status >= MTLCommandBufferStatusCompleted && state_->completed.empty();
  });
}
- (MTLCommandBufferStatus)status {
  const std::lock_guard<std::mutex> hold(state_->lock);
  return state_->status;
}
- (NSError*)error {
  const std::lock_guard<std::mutex> hold(state_->lock);
  if (state_->failure.empty()) return nil;
  NSDictionary* const info =
      [NSDictionary dictionaryWithObject:[NSString stringWithUTF8String:state_->failure.c_str()]
                                  forKey:NSLocalizedDescriptionKey];
  return [NSError errorWithDomain:@"MTLCommandBufferErrorDomain" code:2 userInfo:info];
}
- (CFTimeInterval)kernelStartTime {
  const std::lock_guard<std::mutex> hold(state_->lock);
  return state_->kernel_start;
}
- (CFTimeInterval)kernelEndTime {
  const std::lock_guard<std::mutex> hold(state_->lock);
  return state_->kernel_end;
}
- (CFTimeInterval)GPUStartTime {
  const std::lock_guard<std::mutex> hold(state_->lock);
  return state_->gpu_start;
}
- (CFTimeInterval)GPUEndTime {
  const std::lock_guard<std::mutex> hold(state_->lock);
  return state_->gpu_end;
}
@end

// ---- captures ----

@implementation MTLCaptureDescriptor
- (void)dealloc {
  [captureObject_ release];
  [outputURL_ release];
  [super dealloc];
}
- (id)captureObject {
  return captureObject_;
}
- (void)setCaptureObject:(id)object {
  [captureObject_ release];
  captureObject_ = [object retain];
}
- (MTLCaptureDestination)destination {
  return destination_;
}
- (void)setDestination:(MTLCaptureDestination)destination {
  destination_ = destination;
}
- (NSURL*)outputURL {
  return outputURL_;
}
- (void)setOutputURL:(NSURL*)url {
  [outputURL_ release];
  outputURL_ = [url copy];
}
@end

@implementation MTLCaptureManager
+ (MTLCaptureManager*)sharedCaptureManager {
  static MTLCaptureManager* const only = [[MTLCaptureManager alloc] init];
  return only;
}
- (BOOL)supportsDestination:(MTLCaptureDestination)destination {
  const std::lock_guard<std::mutex> hold(world().lock);
  return world().supports_captures && destination == MTLCaptureDestinationGPUTraceDocument;
}
- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor*)descriptor error:(NSError**)error {
  World& all = world();
  const std::string path = text_of([[descriptor outputURL] path]);
  const bool is_device = [[descriptor captureObject] conformsToProtocol:@protocol(MTLDevice)];
  const std::lock_guard<std::mutex> hold(all.lock);
  std::string failure = all.capture_failure;
  struct stat seen;
  if (failure.empty() && ::stat(path.c_str(), &seen) == 0) failure = "the file exists already";
  if (!failure.empty()) {
    NSDictionary* const info =
        [NSDictionary dictionaryWithObject:[NSString stringWithUTF8String:failure.c_str()]
                                    forKey:NSLocalizedDescriptionKey];
    if (error != nullptr)
      *error = [NSError errorWithDomain:@"MTLCaptureErrorDomain" code:1 userInfo:info];
    return NO;
  }
  all.capturing = true;
  all.capture_path = path;
  all.captured = 0;
  all.log += std::string("capture of ") + (is_device ? "device" : "queue") + "\n";
  return YES;
}
- (void)stopCapture {
  World& all = world();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (!all.committed.empty()) all.log += "capture stopped while work was waiting\n";
  all.capturing = false;
  if (::mkdir(all.capture_path.c_str(), 0755) == 0)
    if (std::FILE* file = std::fopen((all.capture_path + "/command_buffers").c_str(), "w")) {
      std::fprintf(file, "%d\n", all.captured);
      std::fclose(file);
    }
}
- (BOOL)isCapturing {
  const std::lock_guard<std::mutex> hold(world().lock);
  return world().capturing;
}
@end

// ---- functions of the system ----

extern "C" {

FAKE_METAL_EXPORT id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  const std::lock_guard<std::mutex> hold(world().lock);
  return world().devices > 0 ? [[FakeDevice alloc] initWithNumber:0] : nil;
}
FAKE_METAL_EXPORT NSArray* MTLCopyAllDevices(void) {
  int count = 0;
  {
    const std::lock_guard<std::mutex> hold(world().lock);
    count = world().devices;
  }
  NSMutableArray* const all = [[NSMutableArray alloc] init];
  for (int i = 0; i < count; ++i)
    [all addObject:[[[FakeDevice alloc] initWithNumber:(uint64_t)i] autorelease]];
  return all;
}

FAKE_METAL_EXPORT os_log_t os_log_create(const char* subsystem, const char* category) {
  world().note(std::string("log ") + subsystem + " " + category);
  return new fake_os_log{category};
}
FAKE_METAL_EXPORT bool os_signpost_enabled(os_log_t) {
  const std::lock_guard<std::mutex> hold(world().lock);
  return world().signposts_watched;
}
FAKE_METAL_EXPORT os_signpost_id_t os_signpost_id_generate(os_log_t) {
  const std::lock_guard<std::mutex> hold(world().lock);
  return ++world().signpost_ids;
}
FAKE_METAL_EXPORT os_signpost_id_t os_signpost_id_make_with_pointer(os_log_t, const void* pointer) {
  return (os_signpost_id_t)(uintptr_t)pointer;
}
FAKE_METAL_EXPORT void fake_os_signpost(os_log_t log, char kind, os_signpost_id_t id,
                                        const char* name, const char* format, ...) {
  std::string text;
  if (*format != 0) {
    va_list arguments;
    va_start(arguments, format);
    text = std::string(": ") + va_arg(arguments, const char*);  // the one format that is used
    va_end(arguments);
    if (std::string(format) != "%{public}s") text += " (format " + std::string(format) + ")";
  }
  const char* const what = kind == 'e' ? "event" : kind == 'b' ? "begin" : "end";
  world().note(log->category + " " + what + " " + std::to_string(id) + " " + name + text);
}

FAKE_METAL_EXPORT int mach_timebase_info(mach_timebase_info_data_t* info) {
  info->numer = kNumerator;
  info->denom = kDenominator;
  return 0;
}
FAKE_METAL_EXPORT uint64_t mach_absolute_time(void) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto ns =
      static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  return ns * kDenominator / kNumerator;
}

void fake_metal_devices(int count) {
  const std::lock_guard<std::mutex> hold(world().lock);
  world().devices = count;
}
void fake_metal_run_ms(double gpu_ms, double kernel_ms) {
  const std::lock_guard<std::mutex> hold(world().lock);
  world().gpu_ms = gpu_ms;
  world().kernel_ms = kernel_ms;
}
void fake_metal_fail_next(const char* description) {
  const std::lock_guard<std::mutex> hold(world().lock);
  world().failure = description;
}
void fake_metal_hold(int held) {
  const std::lock_guard<std::mutex> hold(world().lock);
  world().held = held != 0;
  world().changed.notify_all();
}
void fake_metal_captures(int supported, const char* failure) {
  const std::lock_guard<std::mutex> hold(world().lock);
  world().supports_captures = supported != 0;
  world().capture_failure = failure != nullptr ? failure : "";
}
void fake_metal_watch_signposts(int watched) {
  const std::lock_guard<std::mutex> hold(world().lock);
  world().signposts_watched = watched != 0;
}
const char* fake_metal_take_log(void) {
  const std::lock_guard<std::mutex> hold(world().lock);
  world().taken = std::exchange(world().log, {});
  return world().taken.c_str();
}
int fake_metal_live_buffers(void) {
  const std::lock_guard<std::mutex> hold(world().lock);
  return world().live_buffers;
}

void* fake_metal_new_queue(const char* label) {
  @autoreleasepool {
    id<MTLDevice> device = [MTLCreateSystemDefaultDevice() autorelease];
    id<MTLCommandQueue> queue = [device newCommandQueue];
    [queue setLabel:[NSString stringWithUTF8String:label]];
    return (__bridge void*)queue;
  }
}
void fake_metal_release_queue(void* queue) {
  [(__bridge id)queue release];
}
void fake_metal_label(void* command_buffer, const char* label) {
  @autoreleasepool {
    [(__bridge id<MTLCommandBuffer>)command_buffer setLabel:[NSString stringWithUTF8String:label]];
  }
}
void fake_metal_commit(void* queue, const char* label, int wait) {
  @autoreleasepool {
    id<MTLCommandBuffer> buffer = [(__bridge id<MTLCommandQueue>)queue commandBuffer];
    [buffer setLabel:[NSString stringWithUTF8String:label]];
    [buffer commit];
    if (wait != 0) [buffer waitUntilCompleted];
  }
}

}  // extern "C"
