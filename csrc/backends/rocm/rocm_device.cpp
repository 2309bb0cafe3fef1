// SPDX-License-Identifier: Apache-2.0
// The functions of the device plug-in for AMD's GPUs: see rocm_device.hpp.
#include "backends/rocm/rocm_device.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <mutex>

#include "backends/rocm/record_reports.hpp"
#include "backends/rocm/rocprofiler_client.hpp"
#include "core/library_search.hpp"
#include "fastprof/base/json_escape.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {
namespace {

constexpr const char* kHipSonames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};

// The library of HIP that the process has loaded; null if there is none.
void* loaded_hip() {
  for (const char* soname : kHipSonames)
    if (void* const handle = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  return nullptr;
}

// Waits for the work of all devices. Adds to `problems` what fails.
void synchronize(std::vector<std::string>& problems) {
  void* const hip = loaded_hip();
  int (*count_devices)(int*) = nullptr;
  int (*get_device)(int*) = nullptr;
  int (*set_device)(int) = nullptr;
  int (*wait)() = nullptr;
  int count = 0, before = 0;
  if (hip == nullptr || !devices::find_function(hip, "hipGetDeviceCount", count_devices) ||
      !devices::find_function(hip, "hipGetDevice", get_device) ||
      !devices::find_function(hip, "hipSetDevice", set_device) ||
      !devices::find_function(hip, "hipDeviceSynchronize", wait) || count_devices(&count) != 0 ||
      get_device(&before) != 0)
    return;
  for (int device = 0; device < count; ++device)
    if (set_device(device) != 0 || wait() != 0)
      problems.push_back("device " + std::to_string(device) +
                         " could not be waited for: its last work may be missing");
  set_device(before);
}

// A collection that is open.
struct Collection {
  uint32_t types = 0;
  Instant begin{};
  Batches batches;
  uint64_t dropped = 0;
};

// Calls are serialised by the backend of plug-ins.
class RocmDevice {
 public:
  explicit RocmDevice(std::vector<std::string> libraries) : client_(std::move(libraries)) {}

  RocprofilerClient& client() { return client_; }

  uint64_t begin(uint32_t types, std::string& reason) {
    reason = client_.problem();
    if (!reason.empty() || (collections_.empty() && !client_.begin(reason))) return 0;
    deliver();  // what was recorded before belongs to the other collections
    Collection collection;
    collection.types = types;
    collection.begin = now();
    collections_.emplace(++last_, std::move(collection));
    return last_;
  }

  void end(uint64_t number, const fastprof_activity_sink& sink) {
    std::vector<std::string> problems;
    synchronize(problems);
    client_.wait_for_work(problems);
    deliver();
    const auto at = collections_.find(number);
    const Instant until = now();
    const Collection collection = std::move(at->second);
    const double ns = static_cast<double>(until.ns - collection.begin.ns);
    const double ticks = static_cast<double>(until.ticks - collection.begin.ticks);
    collections_.erase(at);
    if (collections_.empty()) client_.end();
    RecordReports reports(client_, sink, collection.begin, ns > 0 ? ticks / ns : 1);
    for (const auto& batch : collection.batches) reports.add(*batch);
    if (collection.dropped != 0) {
      sink.dropped(sink.state, collection.dropped);
      problems.push_back(
          "work on AMD's GPUs was lost, because more records were waiting than fit into memory: "
          "record fewer steps at a time");
    }
    if ((collection.types & (1u << FASTPROF_ACTIVITY_WAIT)) != 0)
      problems.push_back("waits of streams and events are not recorded on AMD's GPUs");
    for (const std::string& each : problems) sink.problem(sink.state, each.c_str());
  }

  void abandon(uint64_t number) {
    collections_.erase(number);
    if (collections_.empty()) client_.end();
  }

 private:
  Instant now() const { return {fastprof::ticks(state()), client_.now_ns()}; }

  // Passes the records delivered since the last call to all collections.
  void deliver() {
    uint64_t dropped = 0;
    for (const auto& batch : client_.take(&dropped))
      for (auto& [number, collection] : collections_) collection.batches.push_back(batch);
    for (auto& [number, collection] : collections_) collection.dropped += dropped;
  }

  RocprofilerClient client_;
  uint64_t last_ = 0;
  std::map<uint64_t, Collection> collections_;
};

RocmDevice* g_device = nullptr;  // never destroyed; set before the table is used

void write(fastprof_reason* reason, const std::string& text) {
  std::snprintf(reason->text, sizeof reason->text, "%s", text.c_str());
}

int usable(void*, fastprof_reason* reason) {
  const std::string problem = g_device->client().problem();
  write(reason, problem);
  return problem.empty() ? 1 : 0;
}

uint64_t begin(void*, uint32_t types, fastprof_reason* reason) {
  std::string why;
  const uint64_t number = g_device->begin(types, why);
  write(reason, why);
  return number;
}

int end(void*, uint64_t collection, const fastprof_activity_sink* sink, fastprof_reason*) {
  g_device->end(collection, *sink);
  return 0;
}

void abandon(void*, uint64_t collection) {
  g_device->abandon(collection);
}

uint64_t read_clock(void*) {
  return g_device->client().now_ns();
}

std::string properties_of(const Agent& gpu) {
  std::string text = "{\"id\": " + std::to_string(gpu.device_index) + ", \"name\": ";
  append_json_string(text, gpu.product_name != nullptr ? gpu.product_name : "");
  const std::pair<const char*, uint64_t> numbers[] = {
      {"totalGlobalMem", gpu.memory_bytes},
      {"computeMajor", gpu.gfx_version / 10000},
      {"computeMinor", gpu.gfx_version / 100 % 100},
      {"maxThreadsPerBlock", gpu.workgroup_max_items},
      {"warpSize", gpu.wavefront_size},
      {"sharedMemPerBlock", uint64_t{gpu.lds_kib} * 1024},
      {"numSms", gpu.compute_units}};
  for (const auto& [name, value] : numbers)
    text += std::string(", \"") + name + "\": " + std::to_string(value);
  return text + "}";
}

}  // namespace

const fastprof_device_plugin& rocm_device(std::vector<std::string> libraries) {
  static const fastprof_device_plugin* const only = [&libraries] {
    g_device = new RocmDevice(std::move(libraries));
    auto* const table = new fastprof_device_plugin{};
    table->size = sizeof *table;
    table->major = FASTPROF_DEVICE_PLUGIN_MAJOR;
    table->minor = FASTPROF_DEVICE_PLUGIN_MINOR;
    table->name = "ROCm";
    table->device_type = static_cast<int32_t>(DeviceType::CUDA);  // as in PyTorch
    table->clock = FASTPROF_CLOCK_OWN;
    table->call_clock = FASTPROF_CLOCK_TICKS;
    table->usable = &usable;
    table->begin = &begin;
    table->end = &end;
    table->abandon = &abandon;
    table->read_clock = &read_clock;
    return table;
  }();
  return *only;
}

std::vector<std::pair<std::string, std::string>> rocm_members() {
  if (g_device == nullptr || !g_device->client().is_registered()) return {};
  const RocprofilerLibrary& library = g_device->client().library();
  std::vector<std::pair<std::string, std::string>> members = {
      {"rocprofiler-sdk_version",
       std::to_string(library.major) + "." + std::to_string(library.minor)}};
  for (const char* which : {"runtime", "driver"}) {
    const bool runtime = which[0] == 'r';
    int (*get_version)(int*) = nullptr;
    int version = 0;
    if (void* const hip = loaded_hip();
        hip != nullptr &&
        devices::find_function(hip, runtime ? "hipRuntimeGetVersion" : "hipDriverGetVersion",
                               get_version) &&
        get_version(&version) == 0)
      members.emplace_back("hip_" + std::string(which) + "_version", std::to_string(version));
  }
  std::string text = "[";
  for (const Agent& gpu : g_device->client().gpus())
    text += (text.size() > 1 ? ", " : "") + properties_of(gpu);
  members.emplace_back("deviceProperties", text + "]");
  return members;
}

}  // namespace rocm
FASTPROF_NAMESPACE_END
