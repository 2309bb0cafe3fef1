// SPDX-License-Identifier: Apache-2.0
// Interpreter: where the memory that samples are read from lies, in this process or another one.
// All offsets are data, so that one walk serves both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapters/python/frame_layout.hpp"
#include "fastprof/platform/checked_copy.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Addresses are 0 if unknown.
struct Interpreter {
  int pid = 0;
  bool is_own = true;  // of this process
  Layout layout;
  uintptr_t state = 0;         // the main interpreter's
  uintptr_t threads_head = 0;  // address of the word with the first thread state; 0: ask CPython
  uintptr_t gil_holder = 0;    // address of the word with the thread state that holds the GIL
  uintptr_t code_type = 0;
  uintptr_t text_type = 0;
  uintptr_t bytes_type = 0;
  uintptr_t none = 0;
  uintptr_t runtime = 0;  // _PyRuntime, which contains the GIL of the main interpreter
  uint64_t runtime_bytes = 0;

  bool copy(uintptr_t address, void* to, size_t size_bytes) const noexcept {
    const platform::MemoryPiece piece = {address, to, size_bytes};
    return platform::copy_pieces(pid, &piece, 1) == 1;
  }
};

// The interpreter of this process. The GIL is needed only to find where it says who holds it.
Interpreter own_interpreter() noexcept;

// The offsets of this version of CPython.
Layout own_layout() noexcept;

// Where this interpreter has the words of Interpreter, for another process that runs the same
// version. Offsets of them in _PyRuntime and in the interpreter's state; kAbsent if not found. GIL.
struct AnchorOffsets {
  size_t interpreter = kAbsent;   // in _PyRuntime
  size_t threads_head = kAbsent;  // in the interpreter's state
  size_t gil_holder = kAbsent;    // in _PyRuntime; on versions whose thread states lack it
};
AnchorOffsets own_anchors() noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
