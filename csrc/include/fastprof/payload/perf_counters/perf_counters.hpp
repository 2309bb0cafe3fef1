// SPDX-License-Identifier: Apache-2.0
// A thread's group of perf counters. Opened and read by that thread; closed by it or after its
// exit.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fastprof/base/config.hpp"
#include "fastprof/platform/perf_events.hpp"
#include "fastprof/recorder/process/process_mark.hpp"
#include "fastprof/recorder/state/detail_options.hpp"

FASTPROF_NAMESPACE_BEGIN

// PerfSystem: the system calls used for perf counters, as function pointers. Tests replace them,
// because most machines lack something (a PMU, the permission, the kernel option).
// Return values and errno are those of the system calls.
struct PerfSystem {
  int (*open)(perf_event_attr* attributes, int group_fd);  // this thread, any CPU, close-on-exec
  ssize_t (*read)(int fd, void* buffer, size_t size_bytes);
  int (*enable)(int leader_fd);  // starts the whole group
  int (*close)(int fd);
  void* (*map)(int fd, size_t size_bytes);  // null if not possible
  void (*unmap)(void* address, size_t size_bytes);
  uint64_t (*read_pmc)(uint32_t index);  // null: unsupported or unused on this architecture
  uint64_t (*fd_limit)();                // soft limit on file descriptors
};

inline constexpr PerfSystem kPerfSystem = {
    &perf_calls::open,  //
    &perf_calls::read,  &perf_calls::enable,  &perf_calls::close,    &perf_calls::map,
    &perf_calls::unmap, perf_calls::kReadPmc, &perf_calls::fd_limit,
};

// Result of a read: totals since the group was opened, in the order requested, and the times for
// which the group was enabled and actually counting. running < enabled: the CPU multiplexed its
// counters, so differences must be scaled.
struct CounterSample {
  uint64_t values[kMaxCounters];
  uint64_t enabled_ns;
  uint64_t running_ns;
};

// Plain data in the caller's memory; all zeros is "not opened".
struct ThreadCounters {
  const PerfSystem* system;
  // Identifies the process that opened it: a child must not read its parent's counters.
  uint64_t process_mark;
  int32_t error;                                    // errno of the failed open; 0 if none
  uint32_t count;                                   // open events; 0: nothing to read
  int32_t fds[kMaxCounters];                        // in group order, group leader first
  uint8_t requested_position[kMaxCounters];         // group order -> order requested
  const perf_event_mmap_page* pages[kMaxCounters];  // all mapped, or none
  uint32_t map_bytes;
  uint32_t user_readable;  // every event can be read by rdpmc
};
static_assert(std::is_trivially_copyable<ThreadCounters>::value, "it lies in shared memory");

// Descriptors left for the program, so that profiling does not make its open() fail.
constexpr uint64_t kSpareDescriptors = 32;

// Closes the group. Call on the owning thread, or on any thread once the owner has exited or the
// counters are no longer used. In a forked child it closes the child's copies of the descriptors
// and does not affect the parent's counters.
inline void close_thread_counters(ThreadCounters* counters) noexcept {
  const bool same_process = counters->count != 0 && counters->process_mark == process_mark();
  for (uint32_t i = 0; i < counters->count; ++i) {
    // Perf pages are not inherited: in a child, another mapping may be at their address.
    if (counters->pages[i] != nullptr && same_process)
      counters->system->unmap(const_cast<perf_event_mmap_page*>(counters->pages[i]),
                              counters->map_bytes);
    counters->system->close(counters->fds[i]);
  }
  *counters = ThreadCounters{};
}

namespace perf_detail {

inline perf_event_attr attributes_of(const CounterConfig& config) noexcept {
  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = config.type;
  attributes.config = config.config;
  attributes.exclude_user = (config.excludes & counter_exclude::user) != 0;
  attributes.exclude_kernel = (config.excludes & counter_exclude::kernel) != 0;
  attributes.exclude_hv = (config.excludes & counter_exclude::hypervisor) != 0;
  attributes.read_format =
      PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return attributes;
}

// Maps the control page of each event if all of them can be read without a system call.
inline void map_pages(ThreadCounters* counters) noexcept {
  const PerfSystem* system = counters->system;
  if (system->read_pmc == nullptr) return;
  const auto bytes = static_cast<uint32_t>(::sysconf(_SC_PAGESIZE));
  counters->map_bytes = bytes;
  bool all = true;
  for (uint32_t i = 0; i < counters->count && all; ++i) {
    auto* page = static_cast<const perf_event_mmap_page*>(system->map(counters->fds[i], bytes));
    counters->pages[i] = page;
    all = page != nullptr && page->cap_user_rdpmc != 0 && load_relaxed(&page->index) != 0;
  }
  if (all) {
    counters->user_readable = 1;
    return;
  }
  for (uint32_t i = 0; i < counters->count; ++i) {
    if (counters->pages[i] != nullptr)
      system->unmap(const_cast<perf_event_mmap_page*>(counters->pages[i]), bytes);
    counters->pages[i] = nullptr;
  }
}

// Reads one event by rdpmc. Returns false if it is not on the CPU now or was ever multiplexed.
// Protocol from <linux/perf_event.h>, at perf_event_mmap_page: the kernel changes `lock` around an
// update, on this CPU, so compiler barriers suffice.
inline bool read_page(const PerfSystem* system, const perf_event_mmap_page* page, uint64_t* value,
                      uint64_t* enabled_ns) noexcept {
  for (int tries = 0; tries < 8; ++tries) {
    const uint32_t lock = load_relaxed(&page->lock);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const uint32_t index = load_relaxed(&page->index);
    const uint64_t enabled = load_relaxed(&page->time_enabled);
    const uint64_t running = load_relaxed(&page->time_running);
    const auto offset = static_cast<uint64_t>(load_relaxed(&page->offset));
    const uint32_t width = load_relaxed(&page->pmc_width);
    if (index == 0 || enabled != running || width == 0 || width > 64) return false;
    uint64_t count = system->read_pmc(index - 1);
    count = static_cast<uint64_t>(static_cast<int64_t>(count << (64 - width)) >> (64 - width));
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (load_relaxed(&page->lock) == lock) {
      *value = offset + count;
      *enabled_ns = enabled;
      return true;
    }
  }
  return false;
}

}  // namespace perf_detail

// Opens the group of `options` for the calling thread. Returns true also if no counters are
// requested. If an event cannot be opened, returns false, sets counters->error and leaves nothing
// open. Not for the hot path: up to 4 system calls and as many mmaps.
inline bool open_thread_counters(ThreadCounters* counters, const DetailOptions& options,
                                 const PerfSystem* system = &kPerfSystem) noexcept {
  *counters = ThreadCounters{};
  counters->system = system;
  counters->process_mark = process_mark();
  const uint32_t requested =
      options.counter_count <= kMaxCounters ? options.counter_count : kMaxCounters;
  const uint64_t limit = system->fd_limit();
  // Hardware events first: a group belongs to its leader's unit; software events can join any
  // group, but cannot lead hardware events cheaply.
  for (int software = 0; software < 2; ++software) {
    for (uint32_t i = 0; i < requested; ++i) {
      const CounterConfig& config = options.counters[i];
      if ((config.type == PERF_TYPE_SOFTWARE) != (software == 1)) continue;
      perf_event_attr attributes = perf_detail::attributes_of(config);
      const int group = counters->count == 0 ? -1 : counters->fds[0];
      // The whole group is enabled below: an event that joins an already running leader of another
      // kind stays at 0 (observed with page-faults joining task-clock, Linux 6.18).
      attributes.disabled = counters->count == 0;
      int fd = system->open(&attributes, group);
      int error = fd < 0 ? errno : 0;
      if (fd >= 0 && limit != UINT64_MAX && limit > 2 * kSpareDescriptors &&
          static_cast<uint64_t>(fd) >= limit - kSpareDescriptors) {
        system->close(fd);
        fd = -1;
        error = EMFILE;
      }
      if (fd < 0) {
        close_thread_counters(counters);
        counters->error = error;
        return false;
      }
      counters->fds[counters->count] = fd;
      counters->requested_position[counters->count] = static_cast<uint8_t>(i);
      ++counters->count;
    }
  }
  if (counters->count == 0) return true;
  if (system->enable(counters->fds[0]) != 0) {
    const int error = errno;
    close_thread_counters(counters);
    counters->error = error;
    return false;
  }
  perf_detail::map_pages(counters);
  return true;
}

// Reads the group. Owning thread only. Does not allocate. One system call (2.5 to 2.9 us for 1 to 4
// software events in a virtual machine), or none where the thread may read its counters by rdpmc
// (x86-64, hardware events only, not multiplexed). Returns false, with a sample of zeros, if
// nothing is open, in a forked child, or if the kernel refuses (an event in error state).
inline bool read_thread_counters(const ThreadCounters* counters, CounterSample* sample) noexcept {
  *sample = CounterSample{};
  if (counters->count == 0 || counters->process_mark != process_mark()) return false;
  if (counters->user_readable != 0) {
    uint32_t i = 0;
    for (; i < counters->count; ++i) {
      if (!perf_detail::read_page(counters->system, counters->pages[i],
                                  &sample->values[counters->requested_position[i]],
                                  &sample->enabled_ns))
        break;
    }
    if (i == counters->count) {
      sample->running_ns = sample->enabled_ns;
      return true;
    }
    *sample = CounterSample{};
  }
  struct {
    uint64_t count, enabled_ns, running_ns, values[kMaxCounters];
  } group;
  const int saved = errno;  // a range must not change errno of the profiled code
  const size_t bytes = (3 + counters->count) * sizeof(uint64_t);
  ssize_t got = 0;
  do {
    got = counters->system->read(counters->fds[0], &group, bytes);
  } while (got < 0 && errno == EINTR);
  errno = saved;
  if (got != static_cast<ssize_t>(bytes) || group.count != counters->count) return false;
  sample->enabled_ns = group.enabled_ns;
  sample->running_ns = group.running_ns;
  for (uint32_t i = 0; i < counters->count; ++i)
    sample->values[counters->requested_position[i]] = group.values[i];
  return true;
}

FASTPROF_NAMESPACE_END
