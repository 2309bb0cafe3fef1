// SPDX-License-Identifier: Apache-2.0
// Commits are observed by exchanging the method -commit of the classes whose objects the devices'
// command queues make. PyTorch, MPSGraph and everybody else end up there, so no header or symbol
// of theirs is needed. While nobody observes, the genuine method is in place.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#include <objc/runtime.h>

#include <atomic>
#include <mutex>

#include "backends/metal/commit_observation.hpp"
#include "backends/metal/metal_platform.hpp"
#include "backends/metal/ownership.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {
namespace {

using CommitMethod = void (*)(id, SEL);

// A method -commit and its genuine implementation. Devices of one maker share theirs.
struct Exchanged {
  Method method = nullptr;
  CommitMethod genuine = nullptr;
};
constexpr size_t kMaxMethods = 8;

// Entries are written before the count is published, and stay: a thread may be in a method that has
// been restored.
Exchanged g_exchanged[kMaxMethods];
std::atomic<size_t> g_count{0};
std::atomic<CommitObserver*> g_observer{nullptr};

CommitMethod genuine_method(id buffer, SEL command) {
  const Method method = class_getInstanceMethod(object_getClass(buffer), command);
  const size_t count = g_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i)
    if (g_exchanged[i].method == method) return g_exchanged[i].genuine;
  // A subclass whose method calls that of its superclass, which is exchanged.
  return g_exchanged[0].genuine;
}

void observed_commit(id self, SEL command) {
  CommitObserver* const observer = g_observer.load(std::memory_order_acquire);
  uint64_t number = 0;
  if (observer != nullptr) number = observer->committing(queue_of_buffer((__bridge void*)self));
  if (number != 0)
    [(id<MTLCommandBuffer>)self addCompletedHandler:^(id<MTLCommandBuffer> completed) {
      observer->completed(number, times_of_buffer((__bridge void*)completed));
    }];
  genuine_method(self, command)(self, command);
  if (number != 0) observer->committed(number);
}

// The method -commit of the command buffers that a device makes; null if it makes none.
Method commit_method(id<MTLDevice> device) {
  id<MTLCommandQueue> queue = [device newCommandQueue];
  const id<MTLCommandBuffer> buffer = [queue commandBuffer];
  const Method method =
      buffer != nil ? class_getInstanceMethod(object_getClass(buffer), @selector(commit)) : nullptr;
  FASTPROF_RELEASE(queue);
  return method;
}

bool is_ours(Method method) {
  return method_getImplementation(method) == reinterpret_cast<IMP>(&observed_commit);
}

void exchange(Method method) {
  const size_t count = g_count.load(std::memory_order_relaxed);
  size_t at = 0;
  while (at < count && g_exchanged[at].method != method) ++at;
  if (at == kMaxMethods || is_ours(method)) return;
  g_exchanged[at].method = method;
  g_exchanged[at].genuine = reinterpret_cast<CommitMethod>(method_getImplementation(method));
  if (at == count) g_count.store(count + 1, std::memory_order_release);
  method_setImplementation(method, reinterpret_cast<IMP>(&observed_commit));
}

}  // namespace

bool observe_commits(CommitObserver* observer, std::string& reason) {
  static std::mutex lock;
  const std::lock_guard<std::mutex> hold(lock);
  g_observer.store(observer, std::memory_order_release);
  if (observer == nullptr) {
    // Somebody may have exchanged a method after us: then ours stays below theirs, and observes
    // nothing.
    for (size_t i = 0; i < g_count.load(std::memory_order_relaxed); ++i)
      if (is_ours(g_exchanged[i].method))
        method_setImplementation(g_exchanged[i].method,
                                 reinterpret_cast<IMP>(g_exchanged[i].genuine));
    return true;
  }
  @autoreleasepool {
    size_t methods = 0;
    NSArray* const devices = FASTPROF_AUTORELEASED(MTLCopyAllDevices());
    for (id<MTLDevice> device in devices)
      if (const Method method = commit_method(device)) {
        exchange(method);
        ++methods;
      }
    if (methods != 0) return true;
  }
  g_observer.store(nullptr, std::memory_order_release);
  reason = "no Metal device makes command buffers here";
  return false;
}

}  // namespace metal
FASTPROF_NAMESPACE_END
