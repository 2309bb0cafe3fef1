// SPDX-License-Identifier: Apache-2.0
// SymbolNames: those names of libtorch's functions that the platform is part of. A mangled name
// contains the inline namespace of the standard library's types, and whether int64_t is long
// (Linux) or long long (macOS). libstdc++ also marks functions that return strings.
#pragma once

#include "adapters/torch/layout/standard_library.hpp"
#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

struct SymbolNames {
  const char* remove_callback;         // at::removeCallback(uint64_t)
  const char* before;                  // at::RecordFunction::before(std::variant<...>, int64_t)
  const char* before_with_older_view;  // likewise, with c10::string_view
  const char* before_with_c_string;    // at::RecordFunction::before(const char*, int64_t)
  const char* push_debug_info;         // c10::ThreadLocalDebugInfo::_push
  const char* report_memory_usage;     // c10::reportMemoryUsageToProfiler
  const char* report_out_of_memory;    // c10::reportOutOfMemoryToProfiler
  const char* collective_metadata;     // torch::profiler::impl::saveNcclMeta
  const char* module_hierarchy;        // torch::jit::currentModuleHierarchy
};

inline constexpr SymbolNames kLinuxSymbolNames{
    "_ZN2at14removeCallbackEm",
    "_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_"
    "traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl",
    "_ZN2at14RecordFunction6beforeESt7variantIJN3c1017basic_string_viewIcEESt17"
    "reference_wrapperIKNS2_14FunctionSchemaEEEEl",
    "_ZN2at14RecordFunction6beforeEPKcl",
    "_ZN3c1020ThreadLocalDebugInfo5_pushENS_13DebugInfoKindESt10shared_ptrINS_"
    "13DebugInfoBaseEE",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    "_ZN5torch8profiler4impl12saveNcclMetaB5cxx11ERKN2at14RecordFunctionERKNS1_"
    "18SaveNcclMetaConfigE",
    "_ZN5torch3jit22currentModuleHierarchyB5cxx11Ev",
};

// libc++ is macOS's: official builds for Linux use libstdc++.
inline constexpr SymbolNames kMacSymbolNames{
    "_ZN2at14removeCallbackEy",
    "_ZN2at14RecordFunction6beforeENSt3__17variantIJNS1_17basic_string_viewIcNS1_11char_"
    "traitsIcEEEENS1_17reference_wrapperIKN3c1014FunctionSchemaEEEEEEx",
    "_ZN2at14RecordFunction6beforeENSt3__17variantIJN3c1017basic_string_viewIcEENS1_17"
    "reference_wrapperIKNS3_14FunctionSchemaEEEEEEx",
    "_ZN2at14RecordFunction6beforeEPKcx",
    "_ZN3c1020ThreadLocalDebugInfo5_pushENS_13DebugInfoKindENSt3__110shared_ptrINS_"
    "13DebugInfoBaseEEE",
    "_ZN3c1027reportMemoryUsageToProfilerEPvxmmNS_6DeviceE",
    "_ZN3c1027reportOutOfMemoryToProfilerExmmNS_6DeviceE",
    "_ZN5torch8profiler4impl12saveNcclMetaERKN2at14RecordFunctionERKNS1_"
    "18SaveNcclMetaConfigE",
    "_ZN5torch3jit22currentModuleHierarchyEv",
};

inline constexpr const SymbolNames& kSymbolNames =
    StandardLibrary::kAbi == StringAbi::libstdcxx ? kLinuxSymbolNames : kMacSymbolNames;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
