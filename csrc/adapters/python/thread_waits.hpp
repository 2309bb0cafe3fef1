// SPDX-License-Identifier: Apache-2.0
// ThreadWaits: for what a thread waits, by the system call that it is in.
#pragma once

#include <cstdint>
#include <string>

#include "adapters/python/interpreter.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// The values are stored in samples: model/sampled_stacks.py has their names.
enum class ThreadWait : uint8_t {
  unknown = 0,  // it runs, or the system does not say
  gil = 1,
  lock = 2,  // a futex other than the GIL's
  poll = 3,
  read = 4,  // also receive and accept
  write = 5,
  sleep = 6,
  child = 7,  // of another process to end
  other = 8,  // another system call, or a page fault
};

class ThreadWaits {
 public:
  explicit ThreadWaits(const Interpreter& interpreter) noexcept : interpreter_(interpreter) {}

  // *runs: whether it is on a CPU, or waits for one; false if the system does not say.
  ThreadWait read(uint32_t tid, bool* runs) const noexcept;

  // The kernel's name of a thread; empty if it has ended.
  std::string name_of(uint32_t tid) const;

 private:
  // Reads /proc/PID/task/TID/`name`, without the newline at its end; false if there is no such
  // file.
  bool read_file(uint32_t tid, const char* name, char* text, size_t size) const noexcept;

  const Interpreter& interpreter_;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
