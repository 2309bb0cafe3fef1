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
  // The command buffer that work is encoded into (id<MTLCommandBuffer>), made at the first call and
  // after each commit. Owned by the stream until its commit.
  virtual void* command_buffer() = 0;
  // Until which synchronize(COMMIT_ADAPTIVE) does not commit: profiled works in a command buffer.
  static constexpr int kAdaptiveWorks = 32;
};

// Never destroyed. Defined in metal_platform.mm.
Platform& metal_platform();

// Raises ValueError if command_queue is null. Any thread.
std::unique_ptr<QueueStream> make_queue_stream(void* command_queue);

// The stream on which PyTorch encodes, found in libtorch when this process has loaded it; null if
// it has not, or its libtorch has no Metal. torch_stream.cpp says how. Never destroyed.
Stream* torch_stream();
// Commits and awaits what PyTorch has encoded; no effect without torch_stream().
void synchronize_torch_streams();

// Makes `run` a handler of a command buffer (id<MTLCommandBuffer>) that is not committed yet.
void on_buffer_scheduled(void* command_buffer, std::function<void()> run);
void on_buffer_completed(void* command_buffer, std::function<void(const BufferTimes&)> run);
// Identifies a command buffer among those alive.
inline uint64_t buffer_id(const void* command_buffer) noexcept {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(command_buffer));
}

// What Metal has measured of a completed command buffer (id<MTLCommandBuffer>).
BufferTimes times_of_buffer(void* command_buffer);
std::string label_of_buffer(void* command_buffer);
// The queue of a command buffer.
Queue queue_of_buffer(void* command_buffer);

}  // namespace metal
FASTPROF_NAMESPACE_END
