// SPDX-License-Identifier: Apache-2.0
// ActivityBuffers: memory that CUPTI fills with records. CUPTI requests and returns buffers on its
// own threads, at any time, also while the process exits.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/cuda/cupti_abi.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {

struct FreeMemory {
  void operator()(uint8_t* memory) const noexcept { std::free(memory); }
};

// A buffer that CUPTI has filled.
struct FilledBuffer {
  std::unique_ptr<uint8_t, FreeMemory> memory;
  size_t valid_bytes = 0;
};
using SharedBuffer = std::shared_ptr<FilledBuffer>;

// Buffers that were filled since the last take(). All functions may be called from any thread.
class ActivityBuffers {
 public:
  static constexpr size_t kBufferBytes = size_t{4} << 20;

  // max_bytes: bound of the memory of filled buffers, whether not yet taken or held by collections.
  explicit ActivityBuffers(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns a new buffer of kBufferBytes zeroed bytes; null if memory is exhausted. Fresh memory of
  // the system is zero already, so that the launching thread does not pay for clearing it.
  uint8_t* request() noexcept {
    auto* const memory = static_cast<uint8_t*>(std::calloc(1, kBufferBytes));
    if (memory == nullptr) return nullptr;
    const std::lock_guard<std::mutex> hold(lock_);
    handed_out_.insert(memory);
    return memory;
  }

  // Returns whether CUPTI returns one of our buffers, which then no longer counts as handed out.
  // CUPTI's callbacks belong to the process: it may pass us buffers of another client, and ours to
  // that client.
  bool take_back(uint8_t* memory) {
    const std::lock_guard<std::mutex> hold(lock_);
    return handed_out_.erase(memory) != 0;
  }

  // Returns the number of buffers that CUPTI has not returned.
  size_t count_handed_out() {
    const std::lock_guard<std::mutex> hold(lock_);
    return handed_out_.size();
  }

  // Stops counting the buffers that CUPTI has not returned, and returns their number. They are
  // leaked, since CUPTI may still write into them.
  size_t forget_handed_out() {
    const std::lock_guard<std::mutex> hold(lock_);
    return std::exchange(handed_out_, {}).size();
  }

  // Takes ownership of a filled buffer. Returns false, and leaves the buffer to the caller, if that
  // would exceed the bound. Buffers that are less than half full are shrunk.
  bool complete(std::unique_ptr<uint8_t, FreeMemory>& memory, size_t valid_bytes) {
    if (valid_bytes == 0) return true;
    const std::lock_guard<std::mutex> hold(lock_);
    if (held_bytes() + valid_bytes > max_bytes_) return false;
    if (valid_bytes < kBufferBytes / 2)
      if (void* const fitted = std::realloc(memory.get(), valid_bytes)) {
        (void)memory.release();
        memory.reset(static_cast<uint8_t*>(fitted));
      }
    auto buffer = std::make_shared<FilledBuffer>();
    buffer->memory = std::move(memory);
    buffer->valid_bytes = valid_bytes;
    alive_.push_back(buffer);
    filled_.push_back(std::move(buffer));
    return true;
  }

  // Returns the buffers filled since the last call, in order of completion.
  std::vector<SharedBuffer> take() {
    const std::lock_guard<std::mutex> hold(lock_);
    return std::exchange(filled_, {});
  }

 private:
  uint64_t held_bytes() {
    size_t alive = 0;
    uint64_t bytes = 0;
    for (std::weak_ptr<FilledBuffer>& each : alive_)
      if (const SharedBuffer buffer = each.lock()) {
        bytes += buffer->valid_bytes;
        std::swap(alive_[alive++], each);
      }
    alive_.resize(alive);
    return bytes;
  }

  std::mutex lock_;
  std::unordered_set<uint8_t*> handed_out_;
  std::vector<SharedBuffer> filled_;
  std::vector<std::weak_ptr<FilledBuffer>> alive_;
  const uint64_t max_bytes_;
};

}  // namespace cupti
FASTPROF_NAMESPACE_END
