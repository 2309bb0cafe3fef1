// SPDX-License-Identifier: Apache-2.0
// Loads libcupti: see cupti_library.hpp.
#include "backends/cuda/cupti_library.hpp"

#include <dlfcn.h>

#include <iterator>
#include <mutex>

#include "backends/cuda/library_search.hpp"
#include "core/named_objects.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

using cuda::find_function;

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
  return missing;
}

// Looks for the driver's library, again at each call: a program may load it after CUPTI.
void find_driver(CuptiLibrary& library) {
  if (library.context_synchronize != nullptr) return;
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (driver == nullptr) return;
  find_function(driver, "cuDeviceGetAttribute", library.device_attribute);
  find_function(driver, "cuCtxSynchronize", library.context_synchronize);
}

}  // namespace

std::string CuptiLibrary::text_of(Result code) const {
  const char* text = nullptr;
  if (get_result_string == nullptr || get_result_string(code, &text) != result::success ||
      text == nullptr)
    return "error " + std::to_string(code);
  return std::string(text) + " (" + std::to_string(code) + ")";
}

const CuptiLibrary* load_cupti(const std::vector<std::string>& candidates, std::string& problem) {
  struct Loaded {
    std::mutex lock;
    bool tried = false;
    std::string problem;
    CuptiLibrary library;
  };
  static Loaded* const only = new Loaded;  // callbacks may come while the process exits
  const std::lock_guard<std::mutex> hold(only->lock);
  if (!only->tried) {
    const cuda::LibrarySearch search{
        devices::kCuptiVariable,
        {std::begin(devices::kCuptiSonames), std::end(devices::kCuptiSonames)},
        candidates,
        {"/extras/CUPTI/lib64/libcupti.so", "/lib64/libcupti.so"},
        "libcupti",
        "nvidia-cuda-cupti"};
    CuptiLibrary library;
    const auto bind_all = [&library](void* handle) { return bind(handle, library); };
    if (cuda::load_library(search, bind_all, only->problem)) {
      library.path =
          cuda::path_of_function(reinterpret_cast<void*>(library.get_version), "libcupti");
      library.get_version(&library.version);
      only->library = library;
      only->problem.clear();
    }
    only->tried = true;
  }
  if (only->library.path.empty()) {
    problem = only->problem;
    return nullptr;
  }
  find_driver(only->library);
  return &only->library;
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
