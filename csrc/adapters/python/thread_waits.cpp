// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/thread_waits.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>

#include "fastprof/platform/symbols.hpp"
#include "fastprof/platform/threads.hpp"

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

ThreadWaits::ThreadWaits() noexcept {
  // By name: an interpreter that does not export it must not keep the module from being loaded.
  const void* const runtime = ::dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime == nullptr) return;
  runtime_ = reinterpret_cast<uintptr_t>(runtime);
  runtime_bytes_ = platform::symbol_size(runtime);
}

ThreadWait ThreadWaits::read(uint32_t tid) const noexcept {
  long number = 0;
  uintptr_t first = 0;
  if (!platform::read_system_call(tid, &number, &first)) return ThreadWait::unknown;
#if !FASTPROF_DARWIN
  if (number == kFutex)
    return first - runtime_ < runtime_bytes_ ? ThreadWait::gil : ThreadWait::lock;
#endif
  for (const Known& known : kKnown)
    if (known.number == number) return known.wait;
  return ThreadWait::other;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
