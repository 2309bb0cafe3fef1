// SPDX-License-Identifier: Apache-2.0
// Walks the calling thread's Python frames, without creating frame objects on interpreters whose
// frame layout is known.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <cstdint>

// The layout of 3.14 and 3.15 is the same; of a later version it is not known.
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x03100000 && !defined(Py_GIL_DISABLED) && \
    !defined(Py_STACKREF_DEBUG)
#define FASTPROF_INTERNAL_FRAMES 1
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe_structs.h>
#else
#include <internal/pycore_frame.h>
#endif
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

#if FASTPROF_INTERNAL_FRAMES
// The object that a word of a frame refers to, without a reference of its own. From 3.14 on its low
// bits are a tag.
#if PY_VERSION_HEX >= 0x030E0000
inline PyObject* object_of(_PyStackRef word) noexcept {
  return reinterpret_cast<PyObject*>(word.bits & ~uintptr_t{3});
}
#else
inline PyObject* object_of(PyObject* word) noexcept {
  return word;
}
#endif

inline PyObject* code_of(const _PyInterpreterFrame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return object_of(frame->f_executable);
#else
  return reinterpret_cast<PyObject*>(frame->f_code);
#endif
}

// The index of a frame's instruction among the units of its code; below 0: not started.
inline intptr_t unit_of(const _PyInterpreterFrame* frame, PyObject* code) noexcept {
  const auto* units = reinterpret_cast<const _Py_CODEUNIT*>(
      reinterpret_cast<PyCodeObject*>(code)->co_code_adaptive);
#if PY_VERSION_HEX >= 0x030D0000
  return frame->instr_ptr - units;
#else
  return frame->prev_instr - units;
#endif
}

// Whether the frame runs its function. The interpreter has frames for itself, too, such as the one
// below the __init__ of a class that is called directly; their code is constant and never traced.
inline bool has_started(const _PyInterpreterFrame* frame, PyObject* code) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return frame->owner == FRAME_OWNED_BY_GENERATOR ||
         unit_of(frame, code) >= reinterpret_cast<PyCodeObject*>(code)->_co_firsttraceable;
#else
  return unit_of(frame, code) >= 0;
#endif
}

// Whether it is a frame of the evaluation loop, not of a function.
inline bool is_of_loop(const _PyInterpreterFrame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030E0000
  return frame->owner >= FRAME_OWNED_BY_INTERPRETER;
#elif PY_VERSION_HEX >= 0x030C0000
  return frame->owner == FRAME_OWNED_BY_CSTACK;
#else
  (void)frame;
  return false;
#endif
}

inline _PyInterpreterFrame* innermost_frame_of(PyThreadState* thread) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#else
  return thread->cframe->current_frame;
#endif
}
#endif

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
#if FASTPROF_INTERNAL_FRAMES
  const _PyInterpreterFrame* frame = innermost_frame_of(thread);
#if PY_VERSION_HEX >= 0x030D0000
  return {frame, frame != nullptr ? reinterpret_cast<intptr_t>(frame->instr_ptr) : 0};
#else
  return {frame, frame != nullptr ? reinterpret_cast<intptr_t>(frame->prev_instr) : 0};
#endif
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
  const _PyInterpreterFrame* frame = innermost_frame_of(thread);
  for (; frame != nullptr && count < capacity; frame = frame->previous) {
    PyObject* code = code_of(frame);
    if (is_of_loop(frame)) end_loop();
    if (code == nullptr || !PyCode_Check(code) || is_of_loop(frame)) continue;
    if (has_started(frame, code)) {
      if (entries != nullptr) entries[count] = false;
      frames[count++] = {code, unit_of(frame, code) * static_cast<intptr_t>(sizeof(_Py_CODEUNIT))};
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
