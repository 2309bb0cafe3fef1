// SPDX-License-Identifier: Apache-2.0
// Loads librocprofiler-sdk: see rocprofiler_library.hpp.
#include "backends/rocm/rocprofiler_library.hpp"

#include <dlfcn.h>

#include "core/library_search.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace rocm {
namespace {

using devices::find_function;

// The version of the interface that rocprofiler_abi.hpp declares. Version 0 had other records.
constexpr uint32_t kMajor = 1;

std::string bind(void* handle, RocprofilerLibrary& library) {
  std::string missing;
  const auto need = [&](const char* name, auto& function) {
    if (!find_function(handle, name, function) && missing.empty()) missing = name;
  };
  need("rocprofiler_get_version", library.get_version);
  need("rocprofiler_is_initialized", library.is_initialized);
  need("rocprofiler_force_configure", library.force_configure);
  need("rocprofiler_create_context", library.create_context);
  need("rocprofiler_start_context", library.start_context);
  need("rocprofiler_stop_context", library.stop_context);
  need("rocprofiler_context_is_valid", library.context_is_valid);
  need("rocprofiler_create_buffer", library.create_buffer);
  need("rocprofiler_flush_buffer", library.flush_buffer);
  need("rocprofiler_configure_buffer_tracing_service", library.trace_into_buffer);
  need("rocprofiler_configure_callback_tracing_service", library.trace_by_callback);
  need("rocprofiler_configure_external_correlation_id_request_service", library.request_external);
  need("rocprofiler_iterate_buffer_tracing_kind_operations", library.each_operation);
  need("rocprofiler_query_buffer_tracing_kind_operation_name", library.operation_name);
  need("rocprofiler_query_available_agents", library.each_agent);
  need("rocprofiler_get_timestamp", library.timestamp);
  need("rocprofiler_get_status_string", library.status_text);
  return missing;
}

// Why the interface is not the declared one; empty if it is.
std::string fault_of(RocprofilerLibrary& library) {
  uint32_t patch = 0;
  if (library.get_version(&library.major, &library.minor, &patch) == status::success &&
      library.major == kMajor)
    return {};
  return "librocprofiler-sdk has version " + std::to_string(library.major) + "." +
         std::to_string(library.minor) + ", and fastprof knows version " + std::to_string(kMajor) +
         ": use ROCm 7";
}

}  // namespace

std::string RocprofilerLibrary::text_of(Status code) const {
  const char* const text = status_text(code);
  return std::string(text != nullptr ? text : "unknown error") + " (" + std::to_string(code) + ")";
}

const RocprofilerLibrary* load_rocprofiler(const std::vector<std::string>& candidates,
                                           std::string& problem) {
  static auto* const only = new devices::LoadedOnce<RocprofilerLibrary>;
  return only->get(
      [&] {
        return devices::LibrarySearch{"FASTPROF_ROCPROFILER_LIBRARY",
                                      {"librocprofiler-sdk.so.1", "librocprofiler-sdk.so"},
                                      candidates,
                                      {"ROCM_PATH", "ROCM_HOME"},
                                      {"/lib/librocprofiler-sdk.so"},
                                      "librocprofiler-sdk",
                                      "ROCm",
                                      "rocprofiler-sdk of ROCm 7"};
      },
      bind,
      [](RocprofilerLibrary& loaded) {
        loaded.path = devices::path_of_function(reinterpret_cast<void*>(loaded.get_version),
                                                "librocprofiler-sdk");
        return fault_of(loaded);
      },
      problem);
}

bool hip_has_started() {
  void* const handle = ::dlopen("librocprofiler-register.so.0", RTLD_NOW | RTLD_NOLOAD);
  int (*each_registration)(EachRegistration, void*) = nullptr;
  if (handle == nullptr ||
      !find_function(handle, "rocprofiler_register_iterate_registration_info", each_registration))
    return false;
  bool started = false;
  each_registration(
      [](RegistrationInfo*, void* data) {
        *static_cast<bool*>(data) = true;
        return 1;
      },
      &started);
  return started;
}

}  // namespace rocm
FASTPROF_NAMESPACE_END
