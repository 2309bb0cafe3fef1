// SPDX-License-Identifier: Apache-2.0
// Loading and checking device plug-ins: see plugin_library.hpp.
#include "backends/plugin/plugin_library.hpp"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "backends/plugin/plugin_backend.hpp"
#include "backends/plugin/plugin_call.hpp"
#include "backends/plugin/plugin_stubs.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/primitives/device.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace plugins {
namespace {

struct Accepted {
  LoadedPlugin plugin;
  const fastprof_device_plugin* table = nullptr;
  std::unique_ptr<PluginBackend> backend;
  std::unique_ptr<PluginStubs> stubs;
};

// Never destroyed: threads may use plug-ins while the process exits.
struct Registry {
  std::mutex lock;
  std::map<std::string, std::unique_ptr<Accepted>> by_name;
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

const fastprof_device_host kHost = {sizeof(fastprof_device_host), FASTPROF_DEVICE_PLUGIN_MAJOR,
                                    FASTPROF_DEVICE_PLUGIN_MINOR, FASTPROF_VERSION_STRING,
                                    [] { return ticks(state()); }};

bool is_name(const char* name) {
  if (name == nullptr || name[0] < 'a' || name[0] > 'z') return false;
  size_t size = 0;
  for (; name[size] != 0; ++size) {
    const char c = name[size];
    if (size >= 32 || !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  const std::string text(name);
  return text != "cpu" && text != "cuda";
}

bool is_device_type(int32_t type) {
  for (const DeviceType allowed :
       {DeviceType::XPU, DeviceType::HPU, DeviceType::MTIA, DeviceType::PRIVATEUSE1})
    if (type == static_cast<int32_t>(allowed)) return true;
  return false;
}

const char* stubs_fault(const fastprof_device_stubs& stubs) {
  if (stubs.size < sizeof stubs) return "its stubs are of an older size";
  if (stubs.record == nullptr || stubs.release == nullptr || stubs.elapsed_us == nullptr ||
      stubs.on_each_device == nullptr || stubs.synchronize == nullptr)
    return "its stubs lack record, release, elapsed_us, on_each_device or synchronize";
  return nullptr;
}

}  // namespace

std::string fault_of(const fastprof_device_plugin* plugin) {
  if (plugin == nullptr)
    return "it cannot work with this version of fastprof (its open function returned null)";
  if (plugin->major != FASTPROF_DEVICE_PLUGIN_MAJOR)
    return "it was built for version " + std::to_string(plugin->major) + "." +
           std::to_string(plugin->minor) + " of fastprof/device_plugin.h, and this is version " +
           std::to_string(FASTPROF_DEVICE_PLUGIN_MAJOR) + "." +
           std::to_string(FASTPROF_DEVICE_PLUGIN_MINOR) + ": build it again";
  if (plugin->size < sizeof *plugin)
    return "its table has " + std::to_string(plugin->size) + " bytes, and version 1.0 has " +
           std::to_string(sizeof *plugin) + ": set size to sizeof(fastprof_device_plugin)";
  if (!is_name(plugin->name))
    return "its name must be a lower-case letter and up to 31 lower-case letters, digits or "
           "underscores, and not \"cpu\" or \"cuda\"";
  if (!is_device_type(plugin->device_type))
    return "its device_type is " + std::to_string(plugin->device_type) +
           "; use 20 (PrivateUse1), 12 (XPU), 15 (HPU) or 19 (MTIA)";
  if (plugin->begin == nullptr || plugin->end == nullptr || plugin->abandon == nullptr)
    return "it lacks begin, end or abandon";
  if (plugin->clock > FASTPROF_CLOCK_OWN ||
      (plugin->clock == FASTPROF_CLOCK_OWN && plugin->read_clock == nullptr))
    return "its clock is unknown, or FASTPROF_CLOCK_OWN without read_clock";
  if (plugin->call_clock > FASTPROF_CLOCK_REALTIME)
    return "its call_clock must be FASTPROF_CLOCK_TICKS, MONOTONIC or REALTIME";
  if (plugin->stubs != nullptr)
    if (const char* fault = stubs_fault(*plugin->stubs)) return fault;
  return {};
}

const LoadedPlugin& add_plugin(const fastprof_device_plugin* plugin, const std::string& path) {
  const std::string called = path.empty() ? "the device plug-in" : "the device plug-in " + path;
  if (const std::string fault = fault_of(plugin); !fault.empty())
    raise<ValueError>(called + " is refused: " + fault);
  Registry& all = registry();
  const std::lock_guard<std::mutex> hold(all.lock);
  std::unique_ptr<Accepted>& entry = all.by_name[plugin->name];
  if (entry != nullptr) {
    if (entry->table == plugin) return entry->plugin;
    raise<ValueError>(called + " is refused: the name " + plugin->name + " belongs to " +
                      (entry->plugin.path.empty() ? "another" : entry->plugin.path));
  }
  entry = std::make_unique<Accepted>();
  entry->plugin = {plugin->name, path, plugin->device_type, plugin->stubs != nullptr};
  entry->table = plugin;
  entry->backend = std::make_unique<PluginBackend>(*plugin);
  if (plugin->stubs != nullptr) entry->stubs = std::make_unique<PluginStubs>(*plugin);
  devices::register_backend(entry->backend.get());
  // The first plug-in with stubs serves the exclusive profiler, until another is selected.
  if (entry->stubs != nullptr && device_stubs(DeviceStubsKind::PRIVATEUSE1) == nullptr)
    register_device_stubs(DeviceStubsKind::PRIVATEUSE1, entry->stubs.get());
  return entry->plugin;
}

const LoadedPlugin& load_plugin(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    raise<UnavailableError>("the device plug-in " + path + " cannot be loaded: " +
                            (reason != nullptr ? reason : "no reason is known"));
  }
  const auto open = reinterpret_cast<fastprof_device_plugin_open_function>(
      ::dlsym(library, "fastprof_device_plugin_open"));
  if (open == nullptr)
    raise<UnavailableError>(
        "the library " + path +
        " is no device plug-in: it does not export fastprof_device_plugin_open");
  const fastprof_device_plugin* plugin = nullptr;
  std::string thrown;
  if (!call_plugin([&] { plugin = open(&kHost); }, thrown))
    raise<UnavailableError>("the device plug-in " + path + " cannot be opened: " + thrown);
  return add_plugin(plugin, path);
}

void select_stubs(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> hold(all.lock);
  const auto at = all.by_name.find(name);
  if (at == all.by_name.end() || at->second == nullptr)
    raise<UnavailableError>("there is no device plug-in named " + name +
                            ": register it with fastprof.devices.register()");
  if (at->second->stubs == nullptr)
    raise<UnavailableError>("the device plug-in " + name +
                            " has no stubs, so the exclusive profiler cannot time its work");
  register_device_stubs(DeviceStubsKind::PRIVATEUSE1, at->second->stubs.get());
}

}  // namespace plugins
FASTPROF_NAMESPACE_END
