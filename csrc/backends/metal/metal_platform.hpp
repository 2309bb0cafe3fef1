// SPDX-License-Identifier: Apache-2.0
// Apple's Metal as a metal::Platform, and streams of command queues. Objects of Objective-C are
// passed as void*, so that C++ files can include this: (__bridge void*)object.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fastprof/metal/platform.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// A stream over a command queue (id<MTLCommandQueue>), which it retains. One thread encodes at a
// time.
class QueueStream : public Stream {
 public:
  // Returns the command buffer (id<MTLCommandBuffer>) into which work is encoded, made at the first
  // call and after each commit. Owned by the stream until it is committed.
  virtual void* command_buffer() = 0;
  // Number of profiled works in a command buffer from which synchronize(COMMIT_ADAPTIVE) commits
  // it.
  static constexpr int kAdaptiveWorks = 32;
};

// Never destroyed. Defined in metal_platform.mm.
Platform& metal_platform();

// Raises ValueError if command_queue is null. Any thread.
std::unique_ptr<QueueStream> make_queue_stream(void* command_queue);

// Returns the stream on which PyTorch encodes, found in libtorch (torch_stream.cpp); null if the
// process has not loaded it, or it has no Metal. Never destroyed.
Stream* torch_stream();
// Commits PyTorch's encoded work and waits for it; does nothing without torch_stream().
void synchronize_torch_streams();

// Adds `run` as a handler to a command buffer (id<MTLCommandBuffer>) that is not committed yet.
void on_buffer_scheduled(void* command_buffer, std::function<void()> run);
void on_buffer_completed(void* command_buffer, std::function<void(const BufferTimes&)> run);
// Identifies a command buffer among those alive.
inline uint64_t buffer_id(const void* command_buffer) noexcept {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(command_buffer));
}

// Returns Metal's times of a completed command buffer (id<MTLCommandBuffer>).
BufferTimes times_of_buffer(void* command_buffer);
std::string label_of_buffer(void* command_buffer);
// The queue of a command buffer.
Queue queue_of_buffer(void* command_buffer);

}  // namespace metal
FASTPROF_NAMESPACE_END
