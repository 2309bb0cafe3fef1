// SPDX-License-Identifier: Apache-2.0
// Python stacks at the begin of a range: captured as an id, turned into text when somebody reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/python_frames.hpp"
#include "fastprof/capture/capture.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Frames kept, innermost first; what is further out is left out.
constexpr uint32_t kMaxPythonFrames = 128;

// The id of the calling thread's Python stack, the same for the same frames at the same
// instructions; 0 when there is none, or too many different ones (2^20) are known. Its code objects
// are kept alive until release_python_stacks. About 3 ns a frame and 20 ns. GIL held.
uint64_t capture_python_stack() noexcept;

// The same for frames that were walked: the id when the stack is known, else 0 (with or without the
// GIL); and the id of a stack that is made known (GIL held).
uint64_t find_python_stack(const PythonFrame* frames, uint32_t count) noexcept;
uint64_t add_python_stack(const PythonFrame* frames, uint32_t count) noexcept;

// Whether an id is of a stack that is still kept: ids of sessions that are over are not. Any
// thread.
bool is_known_python_stack(uint64_t id) noexcept;

// Puts the texts of a capture's Python stacks into its strings: a line a frame, "file(line):
// function". wanted: false for a session that did not ask for stacks, whose ranges then have none.
// GIL held. Must be called before the stacks are released.
void resolve_python_stacks(Capture& capture, bool wanted);

// Appends the calling thread's Python frames, innermost first, as "file(line): function"; nothing
// on a thread that runs no Python. With or without the GIL, which is taken. A StackProvider.
void append_python_stack(std::vector<std::string>* frames);

// Frames of this file (co_filename) at the inner end of a stack are left out from now on: the
// wrappers that decorators put around functions. Once, before a function is decorated. GIL held.
void leave_out_frames_of(std::string_view file);

// Sessions that want stacks: start counts one up, stop down; with the last the stacks are released.
void want_python_stacks();
void release_python_stacks();

// In a forked child, where the sessions are gone.
void forget_python_stacks_in_child();

}  // namespace bindings
FASTPROF_NAMESPACE_END
