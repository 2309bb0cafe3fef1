// SPDX-License-Identifier: Apache-2.0
// DeviceSink: receives the activities that a device implemented in Python reports for one
// recording. Use from one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/plugin/activity_builder.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

class DeviceSink {
 public:
  using Reading = std::pair<uint64_t, uint64_t>;  // another clock's time, the recorder's ticks

  DeviceSink(std::string device_kind, int32_t device_type, const std::vector<std::string>& types)
      : name_(device_kind),
        builder_(std::move(device_kind), device_type, plugins::types_of(types, device_type)) {}

  const std::string& name() const noexcept { return name_; }
  plugins::ActivityBuilder& builder() noexcept { return builder_; }
  // Returns the number of arguments of a kind; 0 if it is unknown.
  size_t arguments_of(uint32_t kind) const noexcept {
    return kind < arguments_.size() ? arguments_[kind] : 0;
  }

  uint32_t queue(int32_t device, int64_t number, const std::string& name) {
    return builder_.queue(device, number, name.empty() ? nullptr : name.c_str());
  }
  uint32_t thread(int64_t thread_id) { return builder_.thread(thread_id, nullptr); }
  uint32_t kind(const std::string& name, uint32_t type,
                const std::vector<std::pair<std::string, int>>& arguments) {
    plugins::ReportedKind kind;
    kind.type = type;
    kind.name = name;
    for (const auto& [argument, argument_type] : arguments) {
      if (argument_type < 0 || argument_type > FASTPROF_ARGUMENT_BOOL)
        raise<ValueError>("the argument " + argument + " has the unknown type " +
                          std::to_string(argument_type) +
                          ". Use a type of fastprof/device_plugin.h.");
      kind.argument_names.push_back(argument);
      kind.argument_types.push_back(static_cast<ArgType>(argument_type));
    }
    const uint32_t index = builder_.kind(std::move(kind));
    if (index != FASTPROF_NO_INDEX && index == arguments_.size())
      arguments_.push_back(arguments.size());
    return index;
  }
  uint32_t text(const std::string& json) { return builder_.text(json.c_str()); }
  void dropped(uint64_t count) { builder_.dropped(count); }
  void problem(const std::string& text) { builder_.problem(text); }

  // Converts all stamps and keeps the activities for take(). begin, end: readings of
  // CLOCK_MONOTONIC, the clock of calls; device_begin, device_end: of the device's clock, of `hz`.
  // Returns what failed. Throws ValueError unless hz > 0.
  std::vector<std::string> finish(Reading begin, Reading end, Reading device_begin,
                                  Reading device_end, double hz) {
    if (!(hz > 0))
      raise<ValueError>("the frequency of a device's clock is " + std::to_string(hz) +
                        " Hz. Pass its ticks per second, greater than 0.");
    const double ticks_per_ns = end.first > begin.first
                                    ? static_cast<double>(end.second - begin.second) /
                                          static_cast<double>(end.first - begin.first)
                                    : 1;
    const auto line = [ticks_per_ns](Reading from, Reading until, double rate) {
      return ClockLine::between({from.first, from.second}, {until.first, until.second},
                                ticks_per_ns, rate);
    };
    std::vector<std::string> problems;
    activities_ = builder_.take({line(device_begin, device_end, hz), line(begin, end, 1e9)},
                                begin.second, end.second, ticks_per_ns, problems);
    return problems;
  }
  Activities take() { return std::exchange(activities_, Activities{}); }

 private:
  std::string name_;
  plugins::ActivityBuilder builder_;
  std::vector<size_t> arguments_;  // of each kind
  Activities activities_;
};

}  // namespace bindings
FASTPROF_NAMESPACE_END
