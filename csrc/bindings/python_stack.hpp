// SPDX-License-Identifier: Apache-2.0
// Python stacks of ranges: captured as an id at the begin, converted to text when read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/python/frames.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

using python_adapter::PythonFrame;

// Number of frames kept, innermost first; outer frames are dropped.
constexpr uint32_t kMaxPythonFrames = 128;

// Returns the id of the calling thread's Python stack; equal frames at equal instructions have the
// same id. 0 if there is none, or if 2^20 different stacks are known already. Keeps the code
// objects alive until release_python_stacks. About 20 ns plus 3 ns per frame. Requires the GIL.
uint64_t capture_python_stack() noexcept;

// Returns the id of the calling thread's stack of Python and native frames; used as
// State::joined_stack. With or without the GIL, which is taken to keep the code objects of a new
// stack alive; a thread that runs no Python does not take it. `caller`: see capture_cpp_stack().
// Returns 0 also for a range that begins while its thread is in this function (in an annotated
// malloc).
uint64_t capture_joined_stack(const void* caller) noexcept;

// The two steps of capture_python_stack(), for frames already walked. find_ returns the id of a
// known stack, else 0 (with or without the GIL). add_ adds the stack if it is new and returns its
// id (requires the GIL).
uint64_t find_python_stack(const PythonFrame* frames, uint32_t count) noexcept;
uint64_t add_python_stack(const PythonFrame* frames, uint32_t count) noexcept;

// Writes the texts of all stacks that are known into the backing file in force; new ones are
// written when they are added. Call when a session with a backing file has started. Requires the
// GIL.
void write_stacks_to_file() noexcept;

// Returns whether a stack id is still valid; it is not after its session ended. Any thread.
bool is_known_python_stack(uint64_t id) noexcept;

// Resolves the native frames of all stacks, so that resolve_python_stacks() need not read symbol
// tables. Without the GIL.
void resolve_frames_of_stacks();

// Adds the texts of a capture's Python stacks to its strings, one line per frame: "file(line):
// function", or native_frame_text(). wanted: false for a session without stacks, whose ranges then
// get none. Call before the stacks are released. Requires the GIL.
void resolve_python_stacks(Capture& capture, bool wanted);

// A StackProvider. Appends the calling thread's Python frames, innermost first, as "file(line):
// function"; nothing on a thread that runs no Python. Takes the GIL if it is not held.
void append_python_stack(std::vector<std::string>* frames);

// Counts sessions with stacks: want adds one; release removes one and, at 0, frees the stacks.
// native: with native frames. While any session requests native frames, all stacks have them, and
// come from the leader's begin of a range (State::joined_stack) instead of from the callers of
// capture_python_stack(). Requires the GIL.
void want_python_stacks(bool native);
void release_python_stacks(bool native);

// In a forked child, whose sessions have ended: frees the stacks.
void forget_python_stacks_in_child();

}  // namespace bindings
FASTPROF_NAMESPACE_END
