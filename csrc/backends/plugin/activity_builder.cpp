// SPDX-License-Identifier: Apache-2.0
// Checking and conversion of a device plug-in's reports: see activity_builder.hpp.
#include "backends/plugin/activity_builder.hpp"

#include <algorithm>
#include <cstring>

#include "fastprof/base/json_check.hpp"
#include "fastprof/primitives/device.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {
namespace {

constexpr size_t kMaxActivities = size_t{1} << 27;  // about 10 GB
// The builder adds device, queue, correlation and bandwidth.
constexpr size_t kMaxArguments = kMaxArgs - 4;
constexpr size_t kMaxKinds = size_t{1} << 24;
constexpr uint64_t kMaxTick = uint64_t{1} << 62;

bool is_call(uint32_t type) noexcept {
  return type == FASTPROF_ACTIVITY_CALL || type == FASTPROF_ACTIVITY_DRIVER_CALL ||
         type == FASTPROF_ACTIVITY_OVERHEAD;
}

// Kineto's categories of runtime calls, driver calls and waits, by device type.
struct DeviceCategories {
  DeviceType device_type;
  const char *runtime, *driver, *sync;
};
constexpr DeviceCategories kDevices[] = {
    {DeviceType::CUDA, "cuda_runtime", "cuda_driver", "cuda_sync"},  // AMD's GPUs
    {DeviceType::XPU, "xpu_runtime", "xpu_driver", "xpu_sync"},
    {DeviceType::HPU, "hpu_runtime", "hpu_driver", "hpu_sync"},
    {DeviceType::MTIA, "mtia_runtime", "mtia_driver", "mtia_sync"}};
constexpr DeviceCategories kOtherDevice = {DeviceType::PRIVATEUSE1, "privateuse1_runtime",
                                           "privateuse1_driver", "privateuse1_sync"};

const DeviceCategories& categories_of(int32_t device_type) noexcept {
  for (const DeviceCategories& each : kDevices)
    if (static_cast<int32_t>(each.device_type) == device_type) return each;
  return kOtherDevice;
}

std::string text_of(const char* text) {
  std::string clean;
  append_utf8(clean, text);  // replaces invalid UTF-8
  return clean;
}

}  // namespace

const char* category_of(uint32_t type, int32_t device_type) noexcept {
  const DeviceCategories& device = categories_of(device_type);
  const char* const names[kNumTypes] = {"kernel",       "gpu_memcpy",  "gpu_memset", device.sync,
                                        device.runtime, device.driver, "overhead"};
  return type < kNumTypes ? names[type] : nullptr;
}

uint32_t types_of(const std::vector<std::string>& categories, int32_t device_type) noexcept {
  constexpr uint32_t kWork = bit_of(FASTPROF_ACTIVITY_KERNEL) | bit_of(FASTPROF_ACTIVITY_COPY) |
                             bit_of(FASTPROF_ACTIVITY_FILL);
  uint32_t types = 0;
  for (const std::string& category : categories)
    for (uint32_t type = 0; type < kNumTypes; ++type)
      if (category == category_of(type, device_type)) types |= bit_of(type);
  if ((types & kWork) != 0)
    types |= bit_of(FASTPROF_ACTIVITY_CALL) | bit_of(FASTPROF_ACTIVITY_DRIVER_CALL);
  return types;
}

uint32_t ActivityBuilder::place(ActivityPlace place) {
  const auto [at, fresh] = places_.try_emplace(std::make_pair(place.device_index, place.id),
                                               static_cast<uint32_t>(found_.places.size()));
  if (fresh) found_.places.push_back(std::move(place));
  return at->second;
}

uint32_t ActivityBuilder::queue(int32_t device, int64_t number, const char* name) {
  if (device < 0 || device > INT16_MAX || number < 0) {
    refuse("queues whose device or number is negative or too large");
    return FASTPROF_NO_INDEX;
  }
  ActivityPlace made;
  made.device_index = device;
  made.device_kind = device_name_;
  made.id = number;
  made.name = name != nullptr ? text_of(name) : "queue " + std::to_string(number);
  return place(std::move(made));
}

uint32_t ActivityBuilder::thread(int64_t thread_id, const char* name) {
  if (thread_id < 0) {
    refuse("threads with a negative id");
    return FASTPROF_NO_INDEX;
  }
  ActivityPlace made;
  made.id = thread_id;
  if (name != nullptr) made.name = text_of(name);
  return place(std::move(made));
}

uint32_t ActivityBuilder::kind(ReportedKind reported) {
  const size_t count = reported.argument_names.size();
  if (reported.type >= kNumTypes || count != reported.argument_types.size() ||
      count > kMaxArguments || kinds_.size() >= kMaxKinds) {
    refuse("kinds of activities of an unknown type, or with too many arguments");
    return FASTPROF_NO_INDEX;
  }
  std::string key = std::to_string(reported.type) + reported.name;
  for (size_t i = 0; i < count; ++i)
    key += '\0' + std::to_string(static_cast<int>(reported.argument_types[i])) +
           reported.argument_names[i];
  const auto [known, fresh] =
      kind_numbers_.try_emplace(std::move(key), static_cast<uint32_t>(kinds_.size()));
  if (!fresh) return known->second;
  Kind kind;
  kind.reported = std::move(reported);
  const auto& names = kind.reported.argument_names;
  const auto bytes = std::find(names.begin(), names.end(), "bytes");
  if (bytes != names.end() && (kind.reported.type == FASTPROF_ACTIVITY_COPY ||
                               kind.reported.type == FASTPROF_ACTIVITY_FILL))
    kind.bytes = static_cast<size_t>(bytes - names.begin());
  kinds_.push_back(std::move(kind));
  return static_cast<uint32_t>(kinds_.size() - 1);
}

uint32_t ActivityBuilder::text(const char* json) {
  const auto known = texts_.find(json);
  if (known != texts_.end()) return known->second;
  const std::string_view text(json);
  if (text.empty() || text[0] != '{' || !JsonCheck(text).whole()) {
    refuse("texts that are not JSON objects");
    return FASTPROF_NO_INDEX;
  }
  const auto index = static_cast<uint32_t>(found_.texts.size());
  found_.texts.emplace_back(text);
  texts_.emplace(text, index);
  return index;
}

bool ActivityBuilder::refuse(const char* why) {
  ++refused_[why];
  return false;
}

bool ActivityBuilder::add(const fastprof_activity& given) {
  if (given.kind >= kinds_.size()) return refuse("activities of an unknown kind");
  if (given.place >= found_.places.size()) return refuse("activities on an unknown place");
  const Kind& kind = kinds_[given.kind];
  if ((types_ & bit_of(kind.reported.type)) == 0) return true;
  const size_t count = kind.reported.argument_names.size();
  if (is_call(kind.reported.type) != (found_.places[given.place].device_index < 0))
    return refuse("calls on a queue, or work on a thread");
  if (given.begin == 0 || given.end < given.begin)
    return refuse("activities without a begin, or that end before it");
  if (count != 0 && given.arguments == nullptr) return refuse("activities without arguments");
  if (given.text != FASTPROF_NO_INDEX && given.text >= found_.texts.size())
    return refuse("activities with an unknown text");
  if (added_.size() >= kMaxActivities) {
    ++found_.dropped;
    return refuse("activities beyond the bound of a collection");
  }
  Added added;
  added.activity = given;
  added.activity.arguments = nullptr;
  added.words = words_.size();
  words_.insert(words_.end(), given.arguments, given.arguments + count);
  if (is_call(kind.reported.type) && given.correlation != 0 &&
      !calls_.insert(given.correlation).second) {
    refuse("correlations of more than one call");
    added.activity.correlation = 0;  // the call is kept, without links
  }
  added_.push_back(added);
  return true;
}

uint32_t ActivityBuilder::site(uint32_t number, int32_t device) {
  const auto [at, fresh] = sites_.try_emplace(std::make_pair(number, device),
                                              static_cast<uint32_t>(found_.sites.size()));
  if (!fresh) return at->second;
  const Kind& kind = kinds_[number];
  SiteInfo site;
  site.name = kind.reported.name;
  site.category = category_of(kind.reported.type, device_type_);
  site.mask = device < 0 ? category::runtime : category::device;
  site.scope = RecordScope::FUNCTION;
  const auto argument = [&site](std::string name, ArgType type) {
    site.arg_names.push_back(std::move(name));
    site.arg_types.push_back(type);
  };
  if (device >= 0) {
    site.device_type = static_cast<int16_t>(device_type_);
    site.device_index = static_cast<int16_t>(device);
    argument("device", ArgType::int64);
    argument("stream", ArgType::int64);
  }
  argument("correlation", ArgType::int64);
  for (size_t i = 0; i < kind.reported.argument_names.size(); ++i)
    argument(kind.reported.argument_names[i], kind.reported.argument_types[i]);
  if (kind.bytes != SIZE_MAX) argument("memory bandwidth (GB/s)", ArgType::float64);
  found_.sites.push_back(std::move(site));
  return at->second;
}

void ActivityBuilder::add_words(const Added& added, const Kind& kind, const ActivityPlace& place,
                                double ns) {
  std::vector<uint64_t>& words = found_.words;
  if (place.device_index >= 0) {
    words.push_back(static_cast<uint64_t>(place.device_index));
    words.push_back(static_cast<uint64_t>(place.id));
  }
  words.push_back(added.activity.correlation);
  const auto first = words_.begin() + static_cast<ptrdiff_t>(added.words);
  const auto count = static_cast<ptrdiff_t>(kind.reported.argument_names.size());
  words.insert(words.end(), first, first + count);
  if (kind.bytes == SIZE_MAX) return;
  const double rate =
      ns > 0 ? static_cast<double>(words_[added.words + kind.bytes]) / ns : 0;  // bytes/ns = GB/s
  uint64_t bits;
  std::memcpy(&bits, &rate, sizeof bits);
  words.push_back(bits);
}

Activities ActivityBuilder::take(const ClockLines& clocks, uint64_t begin, uint64_t end,
                                 double ticks_per_ns, std::vector<std::string>& problems) {
  const auto slack = static_cast<uint64_t>(1e6 * ticks_per_ns);
  found_.rows.reserve(added_.size());
  for (const Added& added : added_) {
    const ActivityPlace& place = found_.places[added.activity.place];
    const ClockLine& clock = place.device_index < 0 ? clocks.calls : clocks.work;
    Activity row;
    row.begin = clock.ticks_of(added.activity.begin);
    row.end = std::max(row.begin, clock.ticks_of(added.activity.end));
    // Work that was running when the collection began overlaps it and is kept.
    if (row.begin == 0 || row.end >= kMaxTick || row.end + slack < begin ||
        row.begin > end + slack) {
      ++found_.dropped;
      refuse("activities whose stamps lie outside of the collection");
      continue;
    }
    const Kind& kind = kinds_[added.activity.kind];
    row.correlation = added.activity.correlation;
    row.place = added.activity.place;
    row.site = site(added.activity.kind, place.device_index);
    row.text = added.activity.text == FASTPROF_NO_INDEX ? kNoPayload : added.activity.text;
    row.words = found_.words.size();
    add_words(added, kind, place, static_cast<double>(row.end - row.begin) / ticks_per_ns);
    found_.rows.push_back(row);
  }
  added_.clear();
  report_refused(problems);
  return std::move(found_);
}

void ActivityBuilder::report_refused(std::vector<std::string>& problems) {
  for (std::string& text : problems_) problems.push_back(std::move(text));
  problems_.clear();
  for (const auto& [why, count] : refused_)
    problems.push_back("the plug-in reported " + why + " (" + std::to_string(count) +
                       " times); these reports were ignored. Correct the plug-in.");
  refused_.clear();
}

}  // namespace plugins
FASTPROF_NAMESPACE_END
