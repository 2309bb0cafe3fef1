// SPDX-License-Identifier: Apache-2.0
// ActivityBuilder: converts a device plug-in's reports to Activities. The plug-in is not trusted:
// invalid reports are omitted, counted by reason and listed as problems; valid ones are kept.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fastprof/device_plugin.h"
#include "fastprof/session/activities.hpp"
#include "fastprof/session/clock_line.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {

constexpr uint32_t bit_of(uint32_t type) noexcept {
  return uint32_t{1} << type;
}
constexpr uint32_t kNumTypes = FASTPROF_ACTIVITY_OVERHEAD + 1;

// Returns the category of a type of activities in traces ("kernel", "xpu_runtime"); null for an
// unknown type.
const char* category_of(uint32_t type, int32_t device_type) noexcept;
// Returns the bits of the types with these categories. If they include work, also of calls, which
// link work to the ranges that started it.
uint32_t types_of(const std::vector<std::string>& categories, int32_t device_type) noexcept;

// A kind of activities, as described by the plug-in.
struct ReportedKind {
  uint32_t type = 0;
  std::string name;
  std::vector<std::string> argument_names;
  std::vector<ArgType> argument_types;
};

// Not thread-safe. Functions that return an index return FASTPROF_NO_INDEX for invalid values.
class ActivityBuilder {
 public:
  // device_name: prefix of the device's number ("npu" -> "npu 0"); empty for GPUs. types: bits of
  // the requested types; activities of other types are ignored without being counted.
  ActivityBuilder(std::string device_name, int32_t device_type, uint32_t types)
      : device_name_(std::move(device_name)), device_type_(device_type), types_(types) {}

  uint32_t queue(int32_t device, int64_t number, const char* name);
  uint32_t thread(int64_t thread_id, const char* name);
  uint32_t kind(ReportedKind kind);
  uint32_t text(const char* json);
  // Returns whether the activity is valid; true also if its type was not requested.
  bool add(const fastprof_activity& given);
  void dropped(uint64_t count) noexcept { found_.dropped += count; }
  void problem(std::string text) { problems_.push_back(std::move(text)); }

  // Returns the activities added, with stamps converted by `clocks`. Omits activities that lie more
  // than a millisecond outside [begin, end], in the recorder's ticks. Appends a description of what
  // was refused to `problems`. Call once.
  Activities take(const ClockLines& clocks, uint64_t begin, uint64_t end, double ticks_per_ns,
                  std::vector<std::string>& problems);

 private:
  struct Kind {
    ReportedKind reported;
    size_t bytes = SIZE_MAX;  // position of the argument "bytes" of a copy or fill
  };
  struct Added {
    fastprof_activity activity;
    size_t words = 0;  // first of its arguments, in words_
  };

  uint32_t place(ActivityPlace place);
  uint32_t site(uint32_t kind, int32_t device);
  bool refuse(const char* why);
  void add_words(const Added& added, const Kind& kind, const ActivityPlace& place, double ns);
  void report_refused(std::vector<std::string>& problems);

  const std::string device_name_;
  const int32_t device_type_;
  const uint32_t types_;
  Activities found_;
  std::vector<Kind> kinds_;
  std::map<std::string, uint32_t> kind_numbers_;
  std::vector<Added> added_;
  std::vector<uint64_t> words_;
  std::map<std::pair<int32_t, int64_t>, uint32_t> places_;  // device (-1: threads), number
  std::map<std::pair<uint32_t, int32_t>, uint32_t> sites_;  // kind, device
  std::map<std::string, uint32_t> texts_;
  std::unordered_set<uint32_t> calls_;  // correlations of calls
  std::map<std::string, uint64_t> refused_;
  std::vector<std::string> problems_;
};

}  // namespace plugins
FASTPROF_NAMESPACE_END
