// SPDX-License-Identifier: Apache-2.0
// ThreadWaits: for what a thread of this process waits, by the system call that it is in.
#pragma once

#include <cstdint>

#include "fastprof/macros.hpp"

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
  // Finds where the main interpreter's GIL lies. Takes the loader's lock.
  ThreadWaits() noexcept;

  ThreadWait read(uint32_t tid) const noexcept;

 private:
  uintptr_t runtime_ = 0;  // _PyRuntime, which contains the GIL of the main interpreter
  uint64_t runtime_bytes_ = 0;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
