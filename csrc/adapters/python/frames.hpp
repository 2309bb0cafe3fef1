// SPDX-License-Identifier: Apache-2.0
// Walks the calling thread's Python frames, without creating frame objects on interpreters whose
// frame layout is known.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <cstdint>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
#define FASTPROF_INTERNAL_FRAMES 1
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#else
#define FASTPROF_INTERNAL_FRAMES 0
#endif

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// A frame: its code object (borrowed while the frame lives) and the byte offset of its instruction.
struct PythonFrame {
  PyObject* code;
  intptr_t offset;
};

// Other interpreters give access only through frame objects, whose reference counts the GIL guards.
#if FASTPROF_INTERNAL_FRAMES || PY_VERSION_HEX < 0x030B0000
#define FASTPROF_FRAMES_NEED_GIL 0
#else
#define FASTPROF_FRAMES_NEED_GIL 1
#endif

#if !FASTPROF_FRAMES_NEED_GIL
// Position of the calling thread's innermost frame, for comparison only.
struct FramePosition {
  const void* frame;
  intptr_t instruction;
};
inline FramePosition innermost_python_frame(PyThreadState* thread) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  const _PyInterpreterFrame* frame = thread->current_frame;
  return {frame, frame != nullptr ? reinterpret_cast<intptr_t>(frame->instr_ptr) : 0};
#elif FASTPROF_INTERNAL_FRAMES
  const _PyInterpreterFrame* frame = thread->cframe->current_frame;
  return {frame, frame != nullptr ? reinterpret_cast<intptr_t>(frame->prev_instr) : 0};
#else
  const PyFrameObject* frame = thread->frame;
  return {frame, frame != nullptr ? intptr_t{frame->f_lasti} : 0};
#endif
}
#endif

// Stores up to `capacity` frames of a thread in `frames`, innermost first, and returns their
// number. Call with the GIL, or, if FASTPROF_FRAMES_NEED_GIL is 0, on the thread itself after it
// released the GIL: its frames do not change until it takes the GIL again. `entries`: null, or
// receives for each frame whether it is the outermost of those that one evaluation loop runs (see
// join_stacks()); all false where the interpreter does not report it.
inline uint32_t walk_python_frames(PyThreadState* thread, PythonFrame* frames, uint32_t capacity,
                                   bool* entries = nullptr) noexcept {
  uint32_t count = 0;
  const auto end_loop = [&count, entries] {
    if (entries != nullptr && count != 0) entries[count - 1] = true;
  };
#if FASTPROF_INTERNAL_FRAMES
#if PY_VERSION_HEX >= 0x030D0000
  const _PyInterpreterFrame* frame = thread->current_frame;
#else
  const _PyInterpreterFrame* frame = thread->cframe->current_frame;
#endif
  for (; frame != nullptr && count < capacity; frame = frame->previous) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* code = frame->f_executable;
    if (frame->owner == FRAME_OWNED_BY_CSTACK) end_loop();
    if (code == nullptr || !PyCode_Check(code)) continue;  // a shim frame of the interpreter
    const auto offset = static_cast<intptr_t>(frame->instr_ptr -
                                              _PyCode_CODE(reinterpret_cast<PyCodeObject*>(code)));
#else
    auto* code = reinterpret_cast<PyObject*>(frame->f_code);
#if PY_VERSION_HEX >= 0x030C0000
    if (frame->owner == FRAME_OWNED_BY_CSTACK) {
      end_loop();
      continue;
    }
#endif
    const auto offset = static_cast<intptr_t>(frame->prev_instr - _PyCode_CODE(frame->f_code));
#endif
    if (offset >= 0) {  // else not started
      if (entries != nullptr) entries[count] = false;
      frames[count++] = {code, offset * static_cast<intptr_t>(sizeof(_Py_CODEUNIT))};
    }
#if PY_VERSION_HEX < 0x030C0000
    if (frame->is_entry) end_loop();
#endif
  }
#elif PY_VERSION_HEX < 0x030B0000
  // Frames are objects here; f_lasti counts instructions of two bytes.
  for (PyFrameObject* frame = thread->frame; frame != nullptr && count < capacity;
       frame = frame->f_back) {
    if (frame->f_lasti < 0) continue;               // not started
    if (entries != nullptr) entries[count] = true;  // one evaluation loop per frame
    frames[count++] = {reinterpret_cast<PyObject*>(frame->f_code), intptr_t{frame->f_lasti} * 2};
  }
#else
  PyFrameObject* frame = PyThreadState_GetFrame(thread);  // a new reference, or null
  while (frame != nullptr && count < capacity) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (entries != nullptr) entries[count] = false;
    frames[count++] = {reinterpret_cast<PyObject*>(code), PyFrame_GetLasti(frame)};
    Py_DECREF(code);  // the frame still holds a reference
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
#endif
  (void)end_loop;
  return count;
}

// Returns whether the interpreter is finalizing: a thread that then takes the GIL never returns.
inline bool is_python_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Returns the line number of a frame.
inline int python_frame_line(const PythonFrame& frame) noexcept {
  return PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(frame.code),
                          static_cast<int>(frame.offset));
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
