// SPDX-License-Identifier: Apache-2.0
// Loads libcupti: see cupti_library.hpp.
#include "backends/cuda/cupti_library.hpp"

#include <dlfcn.h>

#include <iterator>
#include <mutex>

#include "core/library_search.hpp"
#include "core/named_objects.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

using devices::find_function;

// Returns the name of a required function that is missing; empty if there is none.
std::string bind(void* handle, CuptiLibrary& library) {
  const char* missing = "";
  const auto need = [&](const char* name, auto& function) {
    if (!find_function(handle, name, function) && *missing == 0) missing = name;
  };
  need("cuptiGetVersion", library.get_version);
  need("cuptiGetResultString", library.get_result_string);
  need("cuptiSubscribe", library.subscribe);
  need("cuptiUnsubscribe", library.unsubscribe);
  need("cuptiActivityRegisterCallbacks", library.register_callbacks);
  need("cuptiActivityEnable", library.enable);
  need("cuptiActivityDisable", library.disable);
  need("cuptiActivityGetNextRecord", library.next_record);
  need("cuptiActivityFlushAll", library.flush_all);
  need("cuptiActivityGetNumDroppedRecords", library.dropped_records);
  need("cuptiGetTimestamp", library.timestamp);
  find_function(handle, "cuptiActivityRegisterTimestampCallback", library.register_timestamp);
  find_function(handle, "cuptiSetThreadIdType", library.set_thread_id_type);
  find_function(handle, "cuptiGetCallbackName", library.callback_name);
  find_function(handle, "cuptiActivityConfigureUnifiedMemoryCounter",
                library.configure_unified_memory);
  find_function(handle, "cuptiSubscribe_v2", library.subscribe_v2);
  find_function(handle, "cuptiActivitySetAttribute", library.set_attribute);
  find_function(handle, "cuptiActivityEnableRuntimeApi", library.enable_runtime_call);
  find_function(handle, "cuptiActivityEnableDriverApi", library.enable_driver_call);
  find_function(handle, "cuptiFinalize", library.finalize);
  find_function(handle, "cuptiActivityEnableCudaEventDeviceTimestamps",
                library.enable_event_stamps);
  return missing;
}

// Looks for the driver's library, again at each call: a program may load it after CUPTI.
void find_driver(CuptiLibrary& library) {
  CuptiLibrary::Driver& driver = library.driver;
  if (driver.context_synchronize != nullptr) return;
  void* const handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return;
  find_function(handle, "cuDriverGetVersion", driver.get_version);
  find_function(handle, "cuDeviceGetCount", driver.device_count);
  find_function(handle, "cuDeviceGetAttribute", driver.device_attribute);
  find_function(handle, "cuDeviceGetName", driver.device_name);
  find_function(handle, "cuDeviceTotalMem_v2", driver.device_memory);
  find_function(handle, "cuCtxPushCurrent_v2", driver.context_push);
  find_function(handle, "cuCtxPopCurrent_v2", driver.context_pop);
  find_function(handle, "cuDevicePrimaryCtxGetState", driver.primary_state);
  find_function(handle, "cuDevicePrimaryCtxRetain", driver.primary_retain);
  find_function(handle, "cuDevicePrimaryCtxRelease_v2", driver.primary_release);
  find_function(handle, "cuCtxSynchronize", driver.context_synchronize);
}

}  // namespace

std::string CuptiLibrary::text_of(Result code) const {
  const char* text = nullptr;
  if (get_result_string == nullptr || get_result_string(code, &text) != result::success ||
      text == nullptr)
    return "error " + std::to_string(code);
  return std::string(text) + " (" + std::to_string(code) + ")";
}

std::string CuptiLibrary::versions() const {
  // 130001 is 13.0, update 1. Before CUDA 13 the number counts releases of CUPTI: 28 is CUDA 12.9.
  std::string text = "libcupti ";
  text += version > 1000
              ? std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                    std::to_string(version % 100)
              : std::to_string(version);
  int number = 0;
  if (driver.get_version != nullptr && driver.get_version(&number) == 0)
    text += ", driver for CUDA " + std::to_string(number / 1000) + "." +
            std::to_string(number % 1000 / 10);
  return text;
}

const CuptiLibrary* load_cupti(const std::vector<std::string>& candidates, std::string& problem) {
  static auto* const only = new devices::LoadedOnce<CuptiLibrary>;
  CuptiLibrary* const library = only->get(
      [&] {
        return devices::LibrarySearch{
            devices::kCuptiVariable,
            {std::begin(devices::kCuptiSonames), std::end(devices::kCuptiSonames)},
            candidates,
            {"CUDA_HOME", "CUDA_PATH"},
            {"/extras/CUPTI/lib64/libcupti.so", "/lib64/libcupti.so"},
            "libcupti",
            "CUDA",
            "the package nvidia-cuda-cupti of your CUDA version"};
      },
      bind,
      [](CuptiLibrary& loaded) {
        loaded.path =
            devices::path_of_function(reinterpret_cast<void*>(loaded.get_version), "libcupti");
        loaded.get_version(&loaded.version);
        return std::string();
      },
      problem);
  if (library == nullptr) return nullptr;
  static auto* const driver_lock = new std::mutex;
  const std::lock_guard<std::mutex> hold(*driver_lock);
  find_driver(*library);  // each time: the driver may have been loaded since
  return library;
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
