// SPDX-License-Identifier: Apache-2.0
// Commits are observed by replacing the method -commit of the classes of command buffers that the
// devices' queues make. All commits, of PyTorch, MPSGraph or the program, go through it, so no
// header or symbol of theirs is needed. While nothing observes, the original method is in place.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#include <objc/runtime.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/metal/commit_observation.hpp"
#include "backends/metal/metal_platform.hpp"
#include "backends/metal/ownership.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {
namespace {

using CommitMethod = void (*)(id, SEL);

// A method -commit and its original implementation. Devices of one vendor share a class.
struct Exchanged {
  Method method = nullptr;
  CommitMethod genuine = nullptr;
};
constexpr size_t kMaxMethods = 8;

// Entries are written before the count is published (release; partner: acquire in genuine_method())
// and never removed: a thread may be in a method that has been restored.
Exchanged g_exchanged[kMaxMethods];
std::atomic<size_t> g_count{0};
// Accessed by atomic_load() and atomic_store() only. Never destroyed.
std::shared_ptr<CommitObserver>& observer_slot() {
  static auto* const only = new std::shared_ptr<CommitObserver>;
  return *only;
}

// The command buffer that is being committed, as a stream.
class CommittedBuffer final : public Stream {
 public:
  explicit CommittedBuffer(void* buffer) : buffer_(buffer) {}
  void on_scheduled(std::function<void()> run) override {
    on_buffer_scheduled(buffer_, std::move(run));
  }
  void on_completed(std::function<void(const BufferTimes&)> run) override {
    on_buffer_completed(buffer_, std::move(run));
  }
  void synchronize(SyncType sync) override { waits_ |= sync == SyncType::COMMIT_AND_WAIT; }
  Queue queue() override { return queue_of_buffer(buffer_); }
  uint64_t buffer() override { return buffer_id(buffer_); }
  bool waits() const noexcept { return waits_; }

 private:
  void* buffer_;
  bool waits_ = false;
};

CommitMethod genuine_method(id buffer, SEL command) {
  const Method method = class_getInstanceMethod(object_getClass(buffer), command);
  const size_t count = g_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i)
    if (g_exchanged[i].method == method) return g_exchanged[i].genuine;
  // A subclass whose method calls that of its superclass, which is exchanged.
  return g_exchanged[0].genuine;
}

void observed_commit(id self, SEL command) {
  const std::shared_ptr<CommitObserver> observer = std::atomic_load(&observer_slot());
  if (observer == nullptr) {
    genuine_method(self, command)(self, command);
    return;
  }
  CommittedBuffer stream((__bridge void*)self);
  const std::shared_ptr<void> commit =
      observer->committing(stream, label_of_buffer((__bridge void*)self));
  genuine_method(self, command)(self, command);
  if (commit != nullptr) observer->committed(commit);
  if (stream.waits()) [(id<MTLCommandBuffer>)self waitUntilCompleted];
}

// Returns the method -commit of the command buffers that a device makes; null if it makes none.
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

bool observe_commits(std::shared_ptr<CommitObserver> observer, std::string& reason) {
  static std::mutex lock;
  const std::lock_guard<std::mutex> hold(lock);
  std::atomic_store(&observer_slot(), observer);
  if (observer == nullptr) {
    // If another tool has replaced the method after us, ours stays below it and observes nothing.
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
  std::atomic_store(&observer_slot(), std::shared_ptr<CommitObserver>());
  reason = "no Metal device makes command buffers here";
  return false;
}

}  // namespace metal
FASTPROF_NAMESPACE_END
