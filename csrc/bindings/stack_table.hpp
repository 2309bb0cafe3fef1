// SPDX-License-Identifier: Apache-2.0
// StackTable: the stacks that ranges were begun with, each kept once, under an id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "adapters/python/frames.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

using python_adapter::PythonFrame;

// A native frame in a stack has no code object, and its return address as offset.
inline PythonFrame native_frame(uint64_t return_address) noexcept {
  return {nullptr, static_cast<intptr_t>(return_address)};
}
inline uint64_t return_address_of(const PythonFrame& frame) noexcept {
  return static_cast<uint64_t>(frame.offset);
}

// Hash table with open addressing. An id is the generation << 32 | (number of the stack, from 1),
// so that an id of an earlier generation is never mistaken for a current one.
//
// Hold lock() for all functions but is_current(). Hold it only for lookups and changes, never while
// running Python or waiting for the GIL, because threads take it with and without the GIL.
class StackTable {
 public:
  std::mutex& lock() noexcept { return lock_; }

  // The same for equal frames.
  static uint64_t hash(const PythonFrame* frames, uint32_t count) noexcept;

  // Returns the id of a known stack, else 0.
  uint64_t find(uint64_t hash, const PythonFrame* frames, uint32_t count) const noexcept;

  // Adds a stack that is not known, with strong references to its code objects (requires the GIL if
  // it has any), and returns its id. Returns 0 if there is no memory, or 2^20 stacks are known.
  uint64_t add(uint64_t hash, const PythonFrame* frames, uint32_t count) noexcept;

  // Returns the frames of a stack, borrowed until clear(). Empty for an id of another generation.
  std::vector<PythonFrame> frames_of(uint64_t id) const;

  // The ids of all stacks are first_id() to first_id() + size() - 1.
  uint64_t first_id() const noexcept { return generation_ << 32 | 1; }
  size_t size() const noexcept { return known_.size(); }

  // The frames of all stacks, one after the other.
  const std::vector<PythonFrame>& frames() const noexcept { return frames_; }

  // Begins a new generation without stacks. Returns the frames of the old one, whose references to
  // code objects now belong to the caller.
  std::vector<PythonFrame> clear();

  // Whether an id is of the current generation. Without the lock.
  bool is_current(uint64_t id) const noexcept { return id >> 32 == load_relaxed(&generation_); }

  // In a forked child: another thread of the parent may have held the lock.
  void renew_lock() noexcept;

 private:
  struct KnownStack {
    uint64_t hash;
    uint32_t first;  // index in frames_
    uint32_t count;
  };

  void grow();

  std::vector<PythonFrame> frames_;  // strong references to the code objects
  std::vector<KnownStack> known_;
  std::vector<uint32_t> slots_;  // index + 1, 0: free; size a power of two, at most half full
  uint64_t generation_ = 0;      // written under the lock, read without it (relaxed)
  std::mutex lock_;
};

// The table of the process; never destroyed, because threads use it during finalization.
StackTable& stack_table();

}  // namespace bindings
FASTPROF_NAMESPACE_END
