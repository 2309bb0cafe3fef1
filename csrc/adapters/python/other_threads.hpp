// SPDX-License-Identifier: Apache-2.0
// OtherThreads: the thread states of the main interpreter, read without the GIL by checked copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "adapters/python/frame_layout.hpp"

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
  // Reads the current list; false if it changed meanwhile. `pid`: of this process.
  bool read(int pid);
  const std::vector<ThreadWords>& threads() const noexcept { return threads_; }

  // Finds where the C library stores a thread's kernel id, which 3.10 does not store itself: the
  // word is where `pthread` has `tid` and the calling thread has its own. Without effect on others.
  void learn_kernel_ids(uintptr_t pthread, uint32_t tid) noexcept;

 private:
  ThreadWords words_of(int pid, uintptr_t address, const char* copy) const noexcept;
  bool has_exception(int pid, uintptr_t address, const char* copy) const noexcept;
  bool walk(int pid, uintptr_t head);

  std::vector<uintptr_t> addresses_;  // of the last read, in the list's order
  std::vector<char> copies_;
  std::vector<ThreadWords> threads_;
#if PY_VERSION_HEX < 0x030B0000
  size_t tid_offset_ = 0;
#endif
};

// Reads one thread state anew; false if its memory is unmapped.
bool read_stack_top(int pid, const ThreadWords& thread, uintptr_t* chunk, uintptr_t* top) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
