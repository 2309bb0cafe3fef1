// SPDX-License-Identifier: Apache-2.0
// Offsets of the members of CPython's thread states, frames and code objects, for reading copies of
// them on a thread that does not hold the GIL. StackSampler::begin() checks them on a known stack.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "adapters/python/frames.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

template <class T>
T load_at(const void* copy, size_t offset) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(copy) + offset, sizeof value);
  return value;
}

struct FrameLayout {
  size_t code;
  size_t previous;
  size_t instruction;  // an address; on 3.10 an index
  size_t owner;        // 0 if frames have none
  size_t size_bytes;   // of the part that is copied
};

#if PY_VERSION_HEX >= 0x030E0000
// f_executable (tagged), previous, f_funcobj, f_globals, f_builtins, f_locals, frame_obj,
// instr_ptr, stackpointer, then a 32-bit index of the thread's bytecode without a GIL, a 16-bit
// offset, and the owner.
#if defined(Py_GIL_DISABLED)
constexpr FrameLayout kFrame = {0, 8, 56, 78, 80};
#else
constexpr FrameLayout kFrame = {0, 8, 56, 74, 80};
#endif
#elif PY_VERSION_HEX >= 0x030D0000
// As 3.12, also without a GIL.
constexpr FrameLayout kFrame = {0, 8, 56, 70, 72};
#elif PY_VERSION_HEX >= 0x030C0000
constexpr FrameLayout kFrame = {
    offsetof(_PyInterpreterFrame, f_code), offsetof(_PyInterpreterFrame, previous),
    offsetof(_PyInterpreterFrame, prev_instr), offsetof(_PyInterpreterFrame, owner),
    offsetof(_PyInterpreterFrame, localsplus)};
#elif PY_VERSION_HEX >= 0x030B0000
constexpr FrameLayout kFrame = {
    offsetof(_PyInterpreterFrame, f_code), offsetof(_PyInterpreterFrame, previous),
    offsetof(_PyInterpreterFrame, prev_instr), offsetof(_PyInterpreterFrame, owner),
    offsetof(_PyInterpreterFrame, localsplus)};
#else
constexpr FrameLayout kFrame = {offsetof(PyFrameObject, f_code), offsetof(PyFrameObject, f_back),
                                offsetof(PyFrameObject, f_lasti), 0,
                                offsetof(PyFrameObject, f_localsplus)};
#endif

// Values of the owner of a frame.
constexpr uint8_t kOwnedByGenerator = 1;
constexpr uint8_t kOwnedByInterpreter = 3;  // and greater ones: frames without a function

// Bytes of a code object before its instructions.
#if PY_VERSION_HEX >= 0x030B0000
constexpr size_t kCodeHeadBytes = offsetof(PyCodeObject, co_code_adaptive);
#else
constexpr size_t kCodeHeadBytes = sizeof(PyCodeObject);
#endif

// Whether a frame of a function is the outermost one of its evaluation loop, as far as the frame
// itself has it. Since 3.12 a frame of the interpreter follows the outermost one.
inline bool is_entry(const void* frame) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  (void)frame;
  return false;
#elif PY_VERSION_HEX >= 0x030B0000
  return load_at<bool>(frame, offsetof(_PyInterpreterFrame, is_entry));
#else
  (void)frame;
  return true;
#endif
}

// Byte offset of the frame's instruction in the code object at `code`; negative if the frame has
// not started.
inline int64_t instruction_offset(const void* frame, uintptr_t code) noexcept {
#if PY_VERSION_HEX >= 0x030B0000
  const auto address = load_at<uintptr_t>(frame, kFrame.instruction);
  return static_cast<int64_t>(address - code - kCodeHeadBytes);
#else
  (void)code;
  return int64_t{2} * load_at<int>(frame, kFrame.instruction);  // of instructions of two bytes
#endif
}

// Whether the instruction lies before the function's own ones, which tracebacks leave out, too.
inline bool is_before_function(const void* code_head, int64_t offset, uint8_t owner) noexcept {
#if PY_VERSION_HEX >= 0x030B0000
  const int first = load_at<int>(code_head, offsetof(PyCodeObject, _co_firsttraceable));
  return owner != kOwnedByGenerator && offset < int64_t{2} * first;
#else
  (void)code_head;
  (void)owner;
  return offset < 0;
#endif
}

// Number of bytes of a code object's instructions; 0 if unknown.
inline int64_t code_bytes(const void* code_head) noexcept {
#if PY_VERSION_HEX >= 0x030B0000
  return int64_t{2} * load_at<Py_ssize_t>(code_head, offsetof(PyVarObject, ob_size));
#else
  (void)code_head;
  return 0;
#endif
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
