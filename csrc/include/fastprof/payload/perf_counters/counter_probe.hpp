// SPDX-License-Identifier: Apache-2.0
// Tests whether a counter works on this machine, by opening it; if not, gives the reason and a
// remedy.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fastprof/base/config.hpp"
#include "fastprof/payload/perf_counters/counter_names.hpp"
#include "fastprof/payload/perf_counters/perf_counters.hpp"

FASTPROF_NAMESPACE_BEGIN

// Returns why opening `config` failed with errno `error`, and the remedy. `group_size`: number of
// events requested together.
inline std::string counter_reason(int error, const CounterConfig& config, uint32_t group_size,
                                  const CounterSurroundings& facts) {
  const bool hardware = config.type != PERF_TYPE_SOFTWARE;
  const bool wants_kernel = (config.excludes & counter_exclude::kernel) == 0;
  const auto system_text = [error] { return std::string(std::strerror(error)); };
  switch (error) {
    case EACCES:
    case EPERM: {
      const std::string level = "kernel.perf_event_paranoid is " + std::to_string(facts.paranoid);
      if (facts.has_paranoid && facts.paranoid > 2)
        return level +
               ", which allows perf events only to privileged processes: set it to 2 (sysctl -w "
               "kernel.perf_event_paranoid=2) or give the process CAP_PERFMON";
      if (facts.has_paranoid && facts.paranoid > 1 && wants_kernel)
        return "it counts in the kernel and " + level +
               ": set it to 1 (sysctl -w kernel.perf_event_paranoid=1), give the process "
               "CAP_PERFMON, or count user mode only (:u)";
      if (facts.seccomp == 2)
        return "a seccomp filter forbids perf_event_open, as in containers by default: start the "
               "container with CAP_PERFMON or with a profile that allows it";
      return "the kernel refuses (" + system_text() + ") although " + level +
             ": a security module or the container forbids perf_event_open";
    }
    case ENOSYS:
      if (facts.seccomp == 2)
        return "a seccomp filter hides perf_event_open: start the container with a profile that "
               "allows it";
      return "this kernel or emulator has no perf events (perf_event_open: ENOSYS)";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      if (hardware && !facts.has_cpu_pmu)
        return facts.virtual_machine ? "this virtual machine has no CPU counter unit (PMU): enable "
                                       "the virtual PMU in the hypervisor, or count on the host"
                                     : "the kernel has no driver for this CPU's counter unit (PMU)";
      return hardware ? "this CPU does not count this event: choose one that perf list shows"
                      : "this kernel does not count this event: choose one that perf list shows";
    case EINVAL:
      if (group_size > 1)
        return "the CPU cannot count these " + std::to_string(group_size) +
               " events in one group: request fewer";
      return "the kernel does not know this event: check its name or raw number";
    case EMFILE:
    case ENFILE:
      return "too few file descriptors are left (limit " + std::to_string(facts.fd_limit) +
             "; each thread needs one per counter): raise it with ulimit -n";
    case EBUSY:
      return "the counters are in exclusive use by a hypervisor, the NMI watchdog or another "
             "profiler: stop that one, or count software events";
    case ENOSPC:
      return "no hardware breakpoint or counter is free: request fewer, or stop other profilers";
    case ENOMEM:
      return "the kernel has no memory for the counter: request fewer counters or threads";
    default:
      return "perf_event_open: " + system_text();
  }
}

// Result of a probe.
struct CounterProbe {
  bool available = false;
  std::string reason;  // empty when available
  CounterConfig config{};
};

// Opens, reads and closes the named events as one group on the calling thread. An unknown name,
// an empty list or more than kMaxCounters names also give a reason. On success, `options` (may be
// null) receives the group. Makes system calls: not for the hot path.
inline CounterProbe probe_counters(const std::vector<std::string>& names,
                                   DetailOptions* options = nullptr,
                                   const PerfSystem* system = &kPerfSystem,
                                   const CounterSurroundings* surroundings = nullptr) {
  CounterProbe probe;
  DetailOptions wanted{};
  if (names.empty()) {
    probe.reason = "the list of counters is empty: name at least one";
    return probe;
  }
  if (names.size() > kMaxCounters) {
    probe.reason = std::to_string(names.size()) + " counters were requested, but a group has at " +
                   "most " + std::to_string(kMaxCounters) + ": request fewer";
    return probe;
  }
  for (const std::string& name : names) {
    CounterConfig config{};
    if (!find_counter(name, &config)) {
      probe.reason = "unknown counter '" + name + "'. Valid names are";
      for (const CounterName& known : kCounterNames) probe.reason += std::string(" ") + known.name;
      probe.reason += ", and rHEX for an event of the CPU, each with :u, :k or :uk";
      return probe;
    }
    wanted.counters[wanted.counter_count++] = config;
  }
  ThreadCounters counters{};
  CounterSample sample;
  probe.config = wanted.counters[0];
  if (open_thread_counters(&counters, wanted, system)) {
    probe.available = read_thread_counters(&counters, &sample);
    close_thread_counters(&counters);
    if (!probe.available) {
      probe.reason = "the group opens but cannot be read: the CPU cannot count these " +
                     std::to_string(names.size()) + " events together: request fewer";
    } else if (sample.enabled_ns != 0 && sample.running_ns == 0) {
      probe.available = false;
      probe.reason =
          "the group opens but does not count: the CPU's counters are in use by the NMI watchdog "
          "or another profiler, or too many were requested";
    } else if (options != nullptr) {
      options->counters = wanted.counters;
      options->counter_count = wanted.counter_count;
    }
    return probe;
  }
  // Find the event that fails: each opened alone. If all succeed, the group as a whole is the
  // cause.
  const int group_error = counters.error;
  const CounterSurroundings facts =
      surroundings != nullptr ? *surroundings : read_counter_surroundings();
  for (size_t i = 0; i < names.size() && names.size() > 1; ++i) {
    DetailOptions single{};
    single.counters[0] = wanted.counters[i];
    single.counter_count = 1;
    const bool opened = open_thread_counters(&counters, single, system);
    const int error = counters.error;
    close_thread_counters(&counters);
    if (opened) continue;
    probe.config = single.counters[0];
    probe.reason = names[i] + ": " + counter_reason(error, single.counters[0], 1, facts);
    return probe;
  }
  probe.reason =
      (names.size() == 1 ? names[0] + ": " : std::string()) +
      counter_reason(group_error, wanted.counters[0], static_cast<uint32_t>(names.size()), facts);
  return probe;
}

// Probes one counter by name, on the calling thread.
inline CounterProbe probe_counter(const std::string& name, const PerfSystem* system = &kPerfSystem,
                                  const CounterSurroundings* surroundings = nullptr) {
  return probe_counters({name}, nullptr, system, surroundings);
}

FASTPROF_NAMESPACE_END
