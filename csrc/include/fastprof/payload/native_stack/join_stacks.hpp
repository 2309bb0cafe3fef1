// SPDX-License-Identifier: Apache-2.0
// Joins the Python frames and the native frames of one stack. Independent of Python.h, so that
// tests can pass stacks written by hand.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// How a native frame appears in a joined stack.
enum class NativeFrame : uint8_t {
  shown,
  evaluation,   // the interpreter's evaluation loop, which runs one or several Python frames
  interpreter,  // its other functions: left out
  hidden,       // of fastprof: left out
  system,       // of the C library: shown, but not where the stack begins
};

// Calls emit_native(address) and emit_python(index) for the frames of the joined stack, innermost
// first. Each evaluation loop is replaced by the Python frames that it runs.
//
// natives: native_count return addresses, innermost first; python_count Python frames;
// classify(address): a NativeFrame; is_entry(index): whether this Python frame is the outermost of
// those that one evaluation loop runs. A loop that runs further frames without a C call in between
// exists since CPython 3.11. cut: one of the two stacks was cut at its outer end. If there are no
// entries, or more or fewer than loops although nothing was cut (a loop was not recognised), the
// place of native frames between Python frames is unknown and they are left out.
template <class Classify, class IsEntry, class EmitNative, class EmitPython>
inline void join_stacks(const uint64_t* natives, uint32_t native_count, uint32_t python_count,
                        bool cut, Classify classify, IsEntry is_entry, EmitNative emit_native,
                        EmitPython emit_python) {
  uint32_t loops = 0;
  uint32_t first_python = native_count;  // index of the interpreter's innermost frame
  uint32_t after_python = 0;             // index behind its outermost frame
  for (uint32_t i = 0; i < native_count; ++i) {
    const NativeFrame kind = classify(natives[i]);
    if (kind != NativeFrame::evaluation && kind != NativeFrame::interpreter) continue;
    if (kind == NativeFrame::evaluation) ++loops;
    if (after_python == 0) first_python = i;
    after_python = i + 1;
  }
  uint32_t entries = 0;
  for (uint32_t i = 0; i < python_count; ++i) entries += is_entry(i) ? 1 : 0;
  const bool matched = entries != 0 ? loops == entries || cut : loops == 0 && python_count == 0;

  // Omit the outermost frames that only start a thread or the program.
  while (native_count > after_python) {
    const NativeFrame last = classify(natives[native_count - 1]);
    if (last == NativeFrame::shown) break;
    --native_count;
  }
  uint32_t python = 0;
  for (uint32_t i = 0; i < native_count; ++i) {
    const NativeFrame kind = classify(natives[i]);
    if (!matched && i == first_python)
      while (python < python_count) emit_python(python++);
    if (kind == NativeFrame::evaluation) {
      for (bool entry = false; python < python_count && !entry;) {
        entry = is_entry(python);
        emit_python(python++);
      }
    } else if (kind == NativeFrame::shown || kind == NativeFrame::system) {
      if (matched || i < first_python || i >= after_python) emit_native(natives[i]);
    }
  }
  while (python < python_count) emit_python(python++);
}

FASTPROF_NAMESPACE_END
