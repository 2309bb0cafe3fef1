// SPDX-License-Identifier: Apache-2.0
// Identity of this process and boot, name of the process, and limits of the machine, from
// sysctl(3).
#pragma once

#include <mach-o/dyld.h>
#include <stdlib.h>
#include <sys/proc.h>
#include <sys/sysctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// An id of this boot of the machine, within which tick counters compare; empty if unknown.
inline void read_boot_id(char* text, size_t size) noexcept {
  size_t length = size - 1;
  if (::sysctlbyname("kern.bootsessionuuid", text, &length, nullptr, 0) != 0) length = 0;
  text[length] = 0;
}

// The name of the program's file; empty if unknown.
inline void read_process_name(char* text, size_t size) noexcept {
  const char* name = ::getprogname();
  text[0] = 0;
  if (name == nullptr || size == 0) return;
  const size_t length = ::strnlen(name, size - 1);
  std::memcpy(text, name, length);
  text[length] = 0;
}

// Start of a process since the Unix epoch in 1/100 s; 0 if it is unreadable, has ended or is a
// zombie. (On Linux the time counts from the boot. It is only compared for equality: together with
// the pid, it identifies a process.)
inline uint64_t process_start(pid_t pid) noexcept {
  int what[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, static_cast<int>(pid)};
  struct kinfo_proc facts;
  size_t bytes = sizeof facts;
  // For a process that does not exist, sysctl returns no bytes and no error.
  if (::sysctl(what, 4, &facts, &bytes, nullptr, 0) != 0 || bytes < sizeof facts) return 0;
  if (facts.kp_proc.p_stat == SZOMB) return 0;
  const auto& start = facts.kp_proc.p_starttime;
  return static_cast<uint64_t>(start.tv_sec) * 100 + static_cast<uint64_t>(start.tv_usec) / 10000;
}
inline uint64_t process_start() noexcept {
  return process_start(::getpid());
}

// Copies the path of the program that this process runs; returns its length, 0 if unknown.
inline size_t read_program_path(char* text, size_t size) noexcept {
  auto room = static_cast<uint32_t>(size);
  if (size == 0 || ::_NSGetExecutablePath(text, &room) != 0) return 0;
  return ::strnlen(text, size);
}

// RAM in bytes; 4 GB if unknown. Darwin has no process groups with memory limits.
inline uint64_t memory_limit_bytes() noexcept {
  uint64_t ram = 0;
  size_t bytes = sizeof ram;
  if (::sysctlbyname("hw.memsize", &ram, &bytes, nullptr, 0) != 0 || ram == 0)
    return uint64_t{1} << 32;
  return ram;
}

// CPUs that a quota allows: unlimited, because Darwin has no quotas.
inline double quota_cpus() noexcept {
  return 1e6;
}

}  // namespace platform
FASTPROF_NAMESPACE_END
