// SPDX-License-Identifier: Apache-2.0
// PluginBackend: the backend of one device plug-in (fastprof/device_plugin.h).
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/device_backend.hpp"
#include "fastprof/device_plugin.h"
#include "fastprof/session/clock_line.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {

// Calls into the plug-in are serialised. Its failures and exceptions become problems of the
// collection, or an UnavailableError at its begin.
class PluginBackend final : public devices::DeviceBackend {
 public:
  // `plugin` has been checked (fault_of()) and lives as long as the process.
  explicit PluginBackend(const fastprof_device_plugin& plugin)
      : PluginBackend(plugin, plugin.name) {}
  // device_kind: of its queues, as ActivityPlace::device_kind.
  PluginBackend(const fastprof_device_plugin& plugin, std::string device_kind)
      : plugin_(plugin), device_kind_(std::move(device_kind)) {}

  std::string name() const override { return plugin_.name; }
  std::string problem() override;
  uint64_t begin(const devices::CollectionRequest& request) override;
  Activities end(uint64_t collection, std::vector<std::string>& problems) override;
  void abandon(uint64_t collection) noexcept override;

 private:
  struct Readings {
    ClockReading work, calls;
  };
  struct Collection {
    uint64_t token = 0;  // the plug-in's number of the collection
    uint32_t types = 0;
    bool annotates = false;
    Readings begin;
    ClockReading host_begin;
  };
  // State of one process. A forked child gets a new one, without its parent's collections and lock.
  struct OfProcess {
    explicit OfProcess(pid_t of) : pid(of) {}
    const pid_t pid;
    std::mutex lock;
    uint64_t last = 0;
    std::map<uint64_t, Collection> collections;
  };

  OfProcess& mine();
  std::string fork_problem();
  Readings read_clocks() const;
  ClockReading read_clock(uint32_t clock) const;
  ClockLine line(uint32_t clock, ClockReading from, ClockReading until, double ticks_per_ns) const;

  const fastprof_device_plugin& plugin_;
  const std::string device_kind_;
  std::atomic<OfProcess*> process_{nullptr};
  const pid_t loaded_in_ = ::getpid();
};

}  // namespace plugins
FASTPROF_NAMESPACE_END
