// SPDX-License-Identifier: Apache-2.0
// NativeStacks: the native part of sampled stacks, and its join with Python frames.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "fastprof/payload/native_stack/join_stacks.hpp"
#include "fastprof/platform/thread_stops.hpp"
#include "fastprof/sampling/stack_requests.hpp"
#include "fastprof/sampling/stack_walker.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// A Python frame of a sample: its code's number and line.
struct SampledFrame {
  uint32_t code;
  int line;
  bool is_entry;  // see join_stacks()
};

// The Python part of a stack, innermost first.
struct PythonPart {
  std::vector<SampledFrame> frames;
  uint32_t started_loops = 0;  // see StackReader
  bool truncated = false;
};

// Codes of nodes from here on are native: the others number code objects.
constexpr uint32_t kNativeCode = 0x80000000u;

// Use from the sampling thread.
class NativeStacks {
 public:
  using Classify = NativeFrame (*)(uint64_t return_address) noexcept;

  explicit NativeStacks(Classify classify) : classify_(classify), frames_(kMaxFrames) {}

  platform::ThreadStops stops;

  void refresh() { walker_.refresh(); }

  // Finds the frames of a copy, and where the thread's stack ends.
  void walk(const platform::CopiedStack& stack, platform::StackExtent* extent);

  // Copies the stack of a thread that is off the CPU; false if it runs.
  bool copy_waiting(int pid, uint32_t tid, const platform::StackExtent& extent,
                    platform::CopiedStack* stack) {
    return copy_waiting_stack(pid, tid, extent, &buffer_, stack);
  }

  // Calls emit(code, line) for the frames of the joined stack, outermost first. python: that of the
  // thread whose stack was walked last.
  template <class Emit>
  void join(const PythonPart& python, Emit&& emit) {
    leave_out_loops(python.started_loops);
    leave_out_start();
    joined_.clear();
    join_stacks(
        frames_.data(), walked_.count, static_cast<uint32_t>(python.frames.size()),
        walked_.truncated || python.truncated, classify_,
        [&python](uint32_t i) { return python.frames[i].is_entry; },
        [this](uint64_t address) {
          joined_.push_back({kNativeCode | number_of(address), 0, false});
        },
        [this, &python](uint32_t i) { joined_.push_back(python.frames[i]); });
    for (size_t i = joined_.size(); i-- != 0;) emit(joined_[i].code, joined_[i].line);
  }

  // The return addresses that native codes number.
  const std::vector<uint64_t>& addresses() const noexcept { return addresses_; }

 private:
  static constexpr uint32_t kMaxFrames = 512;

  uint32_t number_of(uint64_t address) {
    const auto next = static_cast<uint32_t>(addresses_.size());
    const auto [found, added] = numbers_.emplace(address, next);
    if (added) addresses_.push_back(address);
    return found->second;
  }
  void leave_out_loops(uint32_t count);
  void leave_out_start();

  const Classify classify_;
  StackWalker walker_;
  WalkedStack walked_{};
  std::vector<uint64_t> frames_;
  std::vector<char> buffer_;
  std::vector<SampledFrame> joined_;
  std::vector<uint64_t> addresses_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
