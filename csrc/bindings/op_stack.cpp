// SPDX-License-Identifier: Apache-2.0
// Python stacks of ops: see op_stack.hpp.
#include "bindings/op_stack.hpp"

#include "bindings/python_frames.hpp"
#include "bindings/python_stack.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace

uint64_t capture_op_stack() noexcept {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  // While Python ends, a thread that asks for the GIL does not come back.
  if (thread == nullptr || is_finalizing()) return 0;
  if (PyGILState_Check() != 0) return capture_python_stack();
#if FASTPROF_FRAMES_NEED_GIL
  const PyGILState_STATE gil = PyGILState_Ensure();
  const uint64_t id = capture_python_stack();
#else
  PythonFrame frames[kMaxPythonFrames];
  const uint32_t count = walk_python_frames(thread, frames, kMaxPythonFrames);
  if (count == 0) return 0;
  if (const uint64_t known = find_python_stack(frames, count)) return known;
  const PyGILState_STATE gil = PyGILState_Ensure();
  const uint64_t id = add_python_stack(frames, count);
#endif
  PyGILState_Release(gil);
  return id;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
