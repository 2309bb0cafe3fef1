// SPDX-License-Identifier: Apache-2.0
// Layout: offsets of the members of CPython's thread states, frames and objects, for reading copies
// of them without the GIL, of this process or of another one that may run another version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

template <class T>
T load_at(const void* copy, size_t offset) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(copy) + offset, sizeof value);
  return value;
}

constexpr size_t kAbsent = ~size_t{0};  // offset of a member that a version lacks, or is unknown

// In bytes. own_layout() has those of this interpreter; python/fastprof/attach/debug_offsets.py
// passes those that another one publishes.
struct Layout {
  size_t minor = 0;  // of CPython 3.minor

  // Thread states.
  size_t next = 0;
  size_t interpreter = 0;
  size_t id = 0;               // unique among all that were; of other processes the pthread_t
  size_t kernel_id = kAbsent;  // on 3.10: see OtherThreads::learn_kernel_ids()
  size_t pthread = 0;
  size_t frame = 0;                 // with c_frame: in what that points to
  size_t c_frame = kAbsent;         // 3.11, 3.12
  size_t stack_chunk = kAbsent;     // the address of its first frame that has returned follows
  size_t gil_word = kAbsent;        // 32 bits; absent: Interpreter::gil_holder
  uint32_t gil_mask = 0;            // of the bits that are set while the thread holds the GIL
  size_t raised = kAbsent;          // exception
  size_t exception_info = kAbsent;  // address of the innermost item of handled exceptions
  size_t exception_item = kAbsent;  // outermost item, which lies in the thread state
  size_t item_exception = 0;        // in an item
  size_t previous_item = 0;

  // Frames.
  size_t frame_code = 0;
  size_t frame_previous = 0;
  size_t frame_instruction = 0;  // an address; on 3.10 an index
  size_t frame_owner = kAbsent;
  size_t frame_entry = kAbsent;  // 3.11
  size_t frame_bytes = 0;        // of the part that is copied

  // Code objects; instructions follow code_head_bytes, on 3.11 and later.
  size_t code_name = 0;
  size_t code_file = 0;
  size_t code_first_line = 0;
  size_t code_lines = 0;
  size_t code_constants = 0;
  size_t code_first_traceable = kAbsent;
  size_t code_head_bytes = 0;

  // Objects, str and bytes.
  size_t object_type = 0;
  size_t object_size = 0;
  size_t text_length = 0;
  size_t text_state = 0;
  size_t text_kind_shift = 2;  // in the state
  size_t ascii_bytes = 0;      // before the characters
  size_t compact_bytes = 0;    // before characters that are not all ASCII
  size_t bytes_data = 0;
};

constexpr size_t kMaxFrameBytes = 128;  // the largest frame_bytes

// Values of the owner of a frame.
constexpr uint8_t kOwnedByGenerator = 1;
constexpr uint8_t kOwnedByInterpreter = 3;  // and greater ones: frames without a function

// Whether frames lie side by side, not each in an object of its own.
inline bool is_side_by_side(const Layout& layout) noexcept {
  return layout.minor >= 11;
}

// Whether a frame of a function is the outermost one of its evaluation loop, as far as the frame
// itself has it. Since 3.12 a frame of the interpreter follows the outermost one.
inline bool is_entry(const Layout& layout, const void* frame) noexcept {
  // Not a bool: what was copied while it changed may have another value.
  return layout.frame_entry != kAbsent ? load_at<uint8_t>(frame, layout.frame_entry) != 0
                                       : layout.minor < 11;
}

// Byte offset of the frame's instruction in the code object at `code`; negative if the frame has
// not started.
inline int64_t instruction_offset(const Layout& layout, const void* frame,
                                  uintptr_t code) noexcept {
  if (layout.minor < 11)  // an index of instructions of two bytes
    return int64_t{2} * load_at<int>(frame, layout.frame_instruction);
  const auto address = load_at<uintptr_t>(frame, layout.frame_instruction);
  return static_cast<int64_t>(address - code - layout.code_head_bytes);
}

// Whether the instruction lies before the function's own ones, which tracebacks leave out, too.
inline bool is_before_function(const Layout& layout, const void* code_head, int64_t offset,
                               uint8_t owner) noexcept {
  if (layout.code_first_traceable == kAbsent) return offset < 0;
  const int first = load_at<int>(code_head, layout.code_first_traceable);
  return owner != kOwnedByGenerator && offset < int64_t{2} * first;
}

// Number of bytes of a code object's instructions; 0 if unknown.
inline int64_t code_bytes(const Layout& layout, const void* code_head) noexcept {
  return layout.minor < 11 ? 0 : int64_t{2} * load_at<int64_t>(code_head, layout.object_size);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
