// SPDX-License-Identifier: Apache-2.0
// StackSampler: what differs where the sampled threads are those of another process.
//
// Their CPU clocks cannot be read, so the kernel's state says whether a thread runs, and each tick
// copies the stack of each thread. Nothing is put into the process, and it is not stopped.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "adapters/python/stack_sampler.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr int kReadings = 200;  // while threads begin and end, or the interpreter starts
constexpr useconds_t kPauseUs = 1000;

}  // namespace

bool StackSampler::other_is_there() const noexcept {
  // The file belongs to the address space, so neither another program nor a process that was given
  // the same pid is taken for it.
  char byte = 0;
  return ::pread(memory_, &byte, 1, static_cast<off_t>(interpreter_.runtime)) == 1;
}

std::string StackSampler::problem_of_other() {
  uintptr_t word = 0;
  if (!interpreter_.copy(interpreter_.runtime, &word, sizeof word))
    return std::string("its memory cannot be read: ") + std::strerror(errno);
  for (int i = 0; i < kReadings; ++i) {
    if (others_.read() && !others_.threads().empty()) {
      const ThreadWords& first = others_.threads().front();
      if (interpreter_.layout.kernel_id == kAbsent || !waits_.name_of(first.tid).empty()) return {};
    }
    ::usleep(kPauseUs);
  }
  return "its thread states are not where its version of CPython should have them";
}

void StackSampler::sample_other(const ThreadWords& thread, Known* known, int64_t now_ns,
                                uint64_t number) {
  bool runs = false;
  const ThreadWait wait = waits_.read(thread.tid, &runs);
  if (!read_node(thread, &known->node, &known->truncated)) {
    ++counts_.torn;
    return;
  }
  unsigned state = static_cast<unsigned>(wait) << kWaitShift;
  if (runs) state |= kOnCpu;
  if (thread.has_gil) state |= kHasGil;
  if (thread.has_exception) state |= kHasException;
  if (known->truncated) state |= kTruncated;
  add(*known, now_ns, number, static_cast<uint8_t>(state));
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
