// SPDX-License-Identifier: Apache-2.0
// OtherThreads: the thread states of a main interpreter, read without the GIL by checked copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "adapters/python/interpreter.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// What is read of a thread state.
struct ThreadWords {
  uintptr_t address;     // of the thread state
  uintptr_t frame_word;  // address of the word that contains the innermost frame's address
  uintptr_t stack_chunk;
  uintptr_t stack_top;  // frames at or above it, in the chunk, have returned; 0 on 3.10
  uint64_t id;
  uint32_t tid;  // of the kernel; 0 if unknown
  bool has_gil;
  bool has_exception = false;  // raises one, or handles one
};

// Use from one thread.
class OtherThreads {
 public:
  explicit OtherThreads(const Interpreter& interpreter);

  // Reads the current list; false if it changed meanwhile.
  bool read();
  const std::vector<ThreadWords>& threads() const noexcept { return threads_; }

  // Finds where the C library stores a thread's kernel id, which 3.10 does not store itself: the
  // word is where `pthread` has `tid` and the calling thread has its own. Without effect on others.
  // Both are of this process.
  void learn_kernel_ids(uintptr_t pthread, uint32_t tid) noexcept;

 private:
  ThreadWords words_of(uintptr_t address, const char* copy) const noexcept;
  bool has_exception(uintptr_t address, const char* copy) const noexcept;
  bool walk(uintptr_t head);

  const Interpreter& interpreter_;
  const Layout& layout_;
  const size_t thread_bytes_;
  uintptr_t gil_holder_ = 0;          // as of the last read, where thread states lack it
  std::vector<uintptr_t> addresses_;  // of the last read, in the list's order
  std::vector<char> copies_;
  std::vector<ThreadWords> threads_;
  size_t tid_offset_ = 0;
};

// Reads one thread state anew; false if its memory is unmapped.
bool read_stack_top(const Interpreter& interpreter, const ThreadWords& thread, uintptr_t* chunk,
                    uintptr_t* top) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
