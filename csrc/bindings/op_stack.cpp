// SPDX-License-Identifier: Apache-2.0
// Captures Python stacks of ops: see op_stack.hpp.
#include "bindings/op_stack.hpp"

#include "adapters/python/frames.hpp"
#include "adapters/python/gil.hpp"
#include "bindings/python_stack.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

using python_adapter::ensure_gil;
using python_adapter::is_python_finalizing;
using python_adapter::walk_python_frames;
#if !FASTPROF_FRAMES_NEED_GIL
using python_adapter::FramePosition;
using python_adapter::innermost_python_frame;
#endif

uint64_t capture_op_stack(torch_adapter::EnclosingStack& enclosing) noexcept {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  // During finalization, a thread that takes the GIL never returns.
  if (thread == nullptr || is_python_finalizing()) return 0;
#if FASTPROF_FRAMES_NEED_GIL
  (void)enclosing;
  const PyGILState_STATE gil = ensure_gil();
  const uint64_t id = capture_python_stack();
  PyGILState_Release(gil);
  return id;
#else
  const FramePosition top = innermost_python_frame(thread);
  if (enclosing.op != nullptr && enclosing.frame == top.frame &&
      enclosing.instruction == top.instruction && enclosing.thread == thread &&
      is_known_python_stack(enclosing.id))
    return enclosing.id;
  PythonFrame frames[kMaxPythonFrames];
  const uint32_t count = walk_python_frames(thread, frames, kMaxPythonFrames);
  if (count == 0) return 0;
  uint64_t id = find_python_stack(frames, count);
  if (id == 0) {
    const PyGILState_STATE gil = ensure_gil();
    id = add_python_stack(frames, count);
    PyGILState_Release(gil);
  }
  if (enclosing.op == nullptr) enclosing = {nullptr, id, thread, top.frame, top.instruction};
  return id;
#endif
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
