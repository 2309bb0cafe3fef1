// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cupti_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

constexpr const char* kSonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                    "libcupti.so"};

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

// Returns the name of a required function that is missing; empty if there is none.
std::string bind(void* handle, CuptiLibrary& library) {
  const char* missing = "";
  const auto need = [&](const char* name, auto& function) {
    if (!find(handle, name, function) && *missing == 0) missing = name;
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
  find(handle, "cuptiActivityRegisterTimestampCallback", library.register_timestamp);
  find(handle, "cuptiSetThreadIdType", library.set_thread_id_type);
  find(handle, "cuptiGetCallbackName", library.callback_name);
  find(handle, "cuptiActivityConfigureUnifiedMemoryCounter", library.configure_unified_memory);
  return missing;
}

std::string path_of(void* function, const std::string& asked) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : asked;
}

// Loads one file. RTLD_LOCAL: its symbols are nobody else's.
bool load(const std::string& name, int flags, CuptiLibrary& library, std::string& problem) {
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    problem = text != nullptr ? text : name + " cannot be loaded";
    return false;
  }
  const std::string missing = bind(handle, library);
  if (!missing.empty()) {
    problem = name + " has no function " + missing;
    return false;
  }
  library.path = path_of(reinterpret_cast<void*>(library.get_version), name);
  library.get_version(&library.version);
  return true;
}

bool load_any(const std::vector<std::string>& candidates, CuptiLibrary& library,
              std::string& problem) {
  if (const char* chosen = std::getenv("FASTPROF_CUPTI_LIBRARY")) {
    if (*chosen == 0) {
      problem = "FASTPROF_CUPTI_LIBRARY is empty, which switches CUDA off";
      return false;
    }
    if (load(chosen, 0, library, problem)) return true;
    problem = "FASTPROF_CUPTI_LIBRARY names a file that cannot be used: " + problem;
    return false;
  }
  for (const char* name : kSonames)
    if (load(name, RTLD_NOLOAD, library, problem)) return true;
  for (const std::string& path : candidates)
    if (load(path, 0, library, problem)) return true;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* const folder = std::getenv(variable);
    if (folder == nullptr || *folder == 0) continue;
    for (const char* below : {"/extras/CUPTI/lib64/libcupti.so", "/lib64/libcupti.so"})
      if (load(std::string(folder) + below, 0, library, problem)) return true;
  }
  for (const char* name : kSonames)
    if (load(name, 0, library, problem)) return true;
  problem =
      "libcupti was not found: install the package nvidia-cuda-cupti of your CUDA version, or set "
      "FASTPROF_CUPTI_LIBRARY to the library's path";
  return false;
}

// Looks for the driver's library again, which a program may load after CUPTI was.
void find_driver(CuptiLibrary& library) {
  if (library.context_synchronize != nullptr) return;
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (driver == nullptr) return;
  find(driver, "cuDeviceGetAttribute", library.device_attribute);
  find(driver, "cuCtxSynchronize", library.context_synchronize);
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
    CuptiLibrary library;
    if (load_any(candidates, library, only->problem)) {
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
