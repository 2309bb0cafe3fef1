// SPDX-License-Identifier: Apache-2.0
// Describes the devices and NVIDIA's libraries: see device_properties.hpp.
#include "backends/cuda/device_properties.hpp"

#include <dlfcn.h>

#include "backends/cuda/cupti_library.hpp"
#include "core/library_search.hpp"
#include "fastprof/base/json_escape.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

// Names in Kineto's traces and, for the two of memory, which Kineto's have not, in cudaDeviceProp
// (kHz, bits); and CUdevice_attribute.
constexpr std::pair<const char*, int> kAttributes[] = {{"computeMajor", 75},
                                                       {"computeMinor", 76},
                                                       {"maxThreadsPerBlock", 1},
                                                       {"maxThreadsPerMultiprocessor", 39},
                                                       {"regsPerBlock", 12},
                                                       {"warpSize", 10},
                                                       {"sharedMemPerBlock", 8},
                                                       {"numSms", 16},
                                                       {"regsPerMultiprocessor", 82},
                                                       {"sharedMemPerBlockOptin", 97},
                                                       {"sharedMemPerMultiprocessor", 81},
                                                       {"memoryClockRate", 36},
                                                       {"memoryBusWidth", 37}};

std::string properties_of(const CuptiLibrary::Driver& driver, int device) {
  std::string text = "{\"id\": " + std::to_string(device);
  char name[256] = "";
  if (driver.device_name != nullptr && driver.device_name(name, sizeof name, device) == 0) {
    text += ", \"name\": ";
    append_json_string(text, name);
  }
  size_t bytes = 0;
  if (driver.device_memory != nullptr && driver.device_memory(&bytes, device) == 0)
    text += ", \"totalGlobalMem\": " + std::to_string(bytes);
  for (const auto& [attribute, number] : kAttributes) {
    int value = 0;
    if (driver.device_attribute(&value, number, device) == 0)
      text += std::string(", \"") + attribute + "\": " + std::to_string(value);
  }
  return text + "}";
}

// Of the runtime that the process has loaded; 0: none.
int runtime_version() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    int (*get_version)(int*) = nullptr;
    int version = 0;
    if (handle != nullptr && devices::find_function(handle, "cudaRuntimeGetVersion", get_version) &&
        get_version(&version) == 0)
      return version;
  }
  return 0;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> device_members(
    const std::vector<std::string>& libraries) {
  std::string problem;
  const CuptiLibrary* const library = load_cupti(libraries, problem);
  if (library == nullptr) return {};
  std::vector<std::pair<std::string, std::string>> members = {
      {"cupti_version", std::to_string(library->version)}};
  const CuptiLibrary::Driver& driver = library->driver;
  int version = 0, devices = 0;
  if (driver.get_version != nullptr && driver.get_version(&version) == 0)
    members.emplace_back("cuda_driver_version", std::to_string(version));
  if (const int runtime = runtime_version())
    members.emplace_back("cuda_runtime_version", std::to_string(runtime));
  if (driver.device_attribute == nullptr || driver.device_count == nullptr ||
      driver.device_count(&devices) != 0)
    return members;
  std::string text = "[";
  for (int device = 0; device < devices; ++device)
    text += (device != 0 ? ", " : "") + properties_of(driver, device);
  members.emplace_back("deviceProperties", text + "]");
  return members;
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
