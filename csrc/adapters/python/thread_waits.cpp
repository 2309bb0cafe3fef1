// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/thread_waits.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

struct Known {
  long number;
  ThreadWait wait;
};

#if FASTPROF_DARWIN
constexpr Known kKnown[] = {{-1, ThreadWait::unknown}};
#else
constexpr long kFutex = SYS_futex;
constexpr Known kKnown[] = {
#ifdef SYS_poll
    {SYS_poll, ThreadWait::poll},
    {SYS_select, ThreadWait::poll},
    {SYS_epoll_wait, ThreadWait::poll},
    {SYS_pause, ThreadWait::sleep},
#endif
    {SYS_ppoll, ThreadWait::poll},
    {SYS_pselect6, ThreadWait::poll},
    {SYS_epoll_pwait, ThreadWait::poll},
    {SYS_read, ThreadWait::read},
    {SYS_pread64, ThreadWait::read},
    {SYS_readv, ThreadWait::read},
    {SYS_recvfrom, ThreadWait::read},
    {SYS_recvmsg, ThreadWait::read},
    {SYS_accept, ThreadWait::read},
    {SYS_accept4, ThreadWait::read},
    {SYS_write, ThreadWait::write},
    {SYS_pwrite64, ThreadWait::write},
    {SYS_writev, ThreadWait::write},
    {SYS_sendto, ThreadWait::write},
    {SYS_sendmsg, ThreadWait::write},
    {SYS_fsync, ThreadWait::write},
    {SYS_fdatasync, ThreadWait::write},
    {SYS_nanosleep, ThreadWait::sleep},
    {SYS_clock_nanosleep, ThreadWait::sleep},
    {SYS_wait4, ThreadWait::child},
    {SYS_waitid, ThreadWait::child},
    {SYS_flock, ThreadWait::lock},
};
#endif

}  // namespace

bool ThreadWaits::read_file(uint32_t tid, const char* name, char* text,
                            size_t size) const noexcept {
  char path[64];
  if (interpreter_.is_own)
    ::snprintf(path, sizeof path, "/proc/self/task/%u/%s", tid, name);
  else
    ::snprintf(path, sizeof path, "/proc/%d/task/%u/%s", interpreter_.pid, tid, name);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t read = ::read(file, text, size - 1);
  ::close(file);
  if (read <= 0) return false;
  text[read - (text[read - 1] == '\n' ? 1 : 0)] = 0;
  return true;
}

ThreadWait ThreadWaits::read(uint32_t tid, bool* runs) const noexcept {
  char text[64];
  *runs = false;
  if (!read_file(tid, "syscall", text, sizeof text)) return ThreadWait::unknown;
  *runs = text[0] == 'r';  // "running"
  if (*runs) return ThreadWait::unknown;
  char* end = nullptr;
  const long number = ::strtol(text, &end, 10);  // -1: a page fault
#if !FASTPROF_DARWIN
  const auto first = static_cast<uintptr_t>(::strtoull(end, nullptr, 16));
  if (number == kFutex)
    return first - interpreter_.runtime < interpreter_.runtime_bytes ? ThreadWait::gil
                                                                     : ThreadWait::lock;
#endif
  for (const Known& known : kKnown)
    if (known.number == number) return known.wait;
  return ThreadWait::other;
}

std::string ThreadWaits::name_of(uint32_t tid) const {
  char text[64];
  return read_file(tid, "comm", text, sizeof text) ? text : "";
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
