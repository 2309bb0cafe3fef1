// SPDX-License-Identifier: Apache-2.0
// StackReader: copies the Python stack of a thread that may run meanwhile, without the GIL, in this
// process or another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "adapters/python/interpreter.hpp"
#include "adapters/python/other_threads.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

struct CopiedFrame {
  uintptr_t frame;
  uintptr_t code;
  int64_t offset;  // of the instruction, in bytes
  uint32_t head;   // index of the code object's copy
  uint8_t owner;
  bool is_entry;  // the outermost frame of those that one evaluation loop runs: see join_stacks()
};

enum class StackState : uint8_t { complete, empty, torn };

// Use from one thread.
//
// A thread that holds the GIL runs on while its frames are copied. The innermost frames are copied
// by the system call that also reads which is the innermost one, within some tens of ns. That
// copy is repeated only with frames of generators that it lacked, if the sampler was interrupted
// meanwhile, or if the evaluation loop has ended: otherwise a second one would prefer functions
// that run for longer. Outer frames are copied later and compared again at the end. A stack is torn
// if a link or code object is invalid, an outer frame has changed, a frame lies above the top of
// the thread's stack, or a generator was suspended meanwhile.
class StackReader {
 public:
  static constexpr size_t kMaxFrames = 1024;  // of deeper stacks, the innermost ones

  explicit StackReader(const Interpreter& interpreter);

  // Copies a thread's stack into frames(), innermost first, and the heads of its code objects.
  StackState read(const ThreadWords& thread);

  const std::vector<CopiedFrame>& frames() const noexcept { return frames_; }
  bool truncated() const noexcept { return truncated_; }
  // Evaluation loops inside of the innermost frame, whose own first frame has not started.
  uint32_t started_loops() const noexcept { return started_loops_; }
  const char* code_head(const CopiedFrame& frame) const noexcept {
    return &heads_[frame.head * layout_.code_head_bytes];
  }
  // Whether a second reading of the chain contains this frame with the same code object.
  bool is_still_running(const ThreadWords& thread, const CopiedFrame& frame);

 private:
  struct Window {
    uintptr_t low;
    uintptr_t high;
    size_t at;  // in bytes_
  };
  struct Link {
    uintptr_t frame;
    char words[kMaxFrameBytes];
  };

  bool guess_innermost(const ThreadWords& thread);
  bool copy_with_word(const ThreadWords& thread, const uintptr_t* frames, size_t size,
                      uintptr_t* word);
  uintptr_t first_missing(uintptr_t innermost) const noexcept;
  bool is_late() const noexcept;
  bool copy_chain(const ThreadWords& thread);
  bool copy_innermost(const ThreadWords& thread, uintptr_t* innermost);
  bool is_outermost(const ThreadWords& thread, const Link& generator);
  const char* find(uintptr_t frame) const noexcept;
  const char* load(uintptr_t frame);
  size_t make_room(size_t size_bytes);
  bool copy_heads();
  bool links_hold(const ThreadWords& thread);

  const Interpreter& interpreter_;
  const Layout& layout_;
  const int pid_;
  uintptr_t frame_word_ = 0;  // address of the word that contains the innermost frame's address
  int64_t begin_ns_ = 0;      // of the copy of the innermost frames
  int64_t usual_ns_ = 0;      // that it takes
  std::vector<char> bytes_;
  size_t used_ = 0;
  std::vector<Window> windows_;
  std::vector<Link> links_;
  std::vector<CopiedFrame> frames_;
  std::vector<uintptr_t> codes_;
  std::vector<char> heads_;
  bool truncated_ = false;
  uint32_t started_loops_ = 0;
  uintptr_t guess_ = 0;  // the innermost frame shortly before
  std::unique_ptr<StackReader> second_;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
