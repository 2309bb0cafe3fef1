// SPDX-License-Identifier: Apache-2.0
// The program's side of NVTX: see nvtx_tool.hpp.
#include "backends/nvtx/nvtx_tool.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "backends/nvtx/nvtx_abi.hpp"
#include "core/range_emission.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace nvtx {
namespace {

// A module of functions that a tool may replace. Modules that are never called are provided all the
// same, because tools may rely on NVTX having them.
template <uint32_t Count>
struct FunctionModule {
  FunctionPointer functions[Count] = {};
  FunctionPointer* table[Count] = {};  // [0] is null, as in NVTX

  FunctionModule() noexcept {
    for (uint32_t i = 1; i < Count; ++i) table[i] = &functions[i];
  }
  int give(FunctionTable* to, unsigned int* count) noexcept {
    if (to != nullptr) *to = table;
    if (count != nullptr) *count = Count;
    return 1;
  }
};
struct Modules {
  FunctionModule<core::count> core;
  FunctionModule<core2::count> core2;
  FunctionModule<kCudaFunctions> cuda;
  FunctionModule<kOpenclFunctions> opencl;
  FunctionModule<kCudartFunctions> cudart;
  FunctionModule<kSyncFunctions> sync;
};
Modules& modules() noexcept {
  static Modules& all = *new Modules;
  return all;
}

int give_module(Module module, FunctionTable* table, unsigned int* count) noexcept {
  switch (module) {
    case Module::core:
      return modules().core.give(table, count);
    case Module::core2:
      return modules().core2.give(table, count);
    case Module::cuda:
      return modules().cuda.give(table, count);
    case Module::opencl:
      return modules().opencl.give(table, count);
    case Module::cudart:
      return modules().cudart.give(table, count);
    case Module::sync:
      return modules().sync.give(table, count);
  }
  return 0;
}
void ignore_version(uint32_t) noexcept {}

const void* get_export_table(ExportTable table) noexcept {
  static const CallbacksTable callbacks{sizeof(CallbacksTable), &give_module};
  static const VersionInfoTable version{sizeof(VersionInfoTable), kVersion, 0, &ignore_version};
  if (table == ExportTable::callbacks) return &callbacks;
  if (table == ExportTable::version_info) return &version;
  return nullptr;
}

// The tool's functions of NVTX's core; null until it is attached.
int (*g_push)(const char*) = nullptr;
int (*g_pop)() = nullptr;
void (*g_mark)(const char*) = nullptr;

void push(const char* text) {
  g_push(text);
}
void pop() {
  g_pop();
}
void mark(const char* text) {
  g_mark(text);
}
int push_nothing(const char*) noexcept {
  return -2;
}  // NVTX_NO_PUSH_POP_TRACKING
int pop_nothing() noexcept {
  return -2;
}
void mark_nothing(const char*) noexcept {}

constexpr range_tools::RangeTool kTool{&push, &pop, &mark};

void take_functions() noexcept {
  const FunctionPointer* const functions = modules().core.functions;
  g_push = functions[core::RangePushA] != nullptr
               ? reinterpret_cast<int (*)(const char*)>(functions[core::RangePushA])
               : &push_nothing;
  g_pop = functions[core::RangePop] != nullptr
              ? reinterpret_cast<int (*)()>(functions[core::RangePop])
              : &pop_nothing;
  g_mark = functions[core::MarkA] != nullptr
               ? reinterpret_cast<void (*)(const char*)>(functions[core::MarkA])
               : &mark_nothing;
}

// Returns "" once a tool is attached.
std::string attach() {
  const char* const path = std::getenv(kInjectionVariable);
  if (path == nullptr || path[0] == '\0')
    return "no NVTX tool is attached (NVTX_INJECTION64_PATH is not set). Start the program under a "
           "tool: nsys profile --trace=nvtx ...";
  const std::string tool(path);
  // Never closed: its functions are called until the process ends.
  void* const library = ::dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    return "cannot load the NVTX tool of NVTX_INJECTION64_PATH: " +
           std::string(reason != nullptr ? reason : path) + ". Correct the variable, or unset it.";
  }
  void* const entry = ::dlsym(library, kInjectionEntry);
  if (entry == nullptr)
    return "the library of NVTX_INJECTION64_PATH, " + tool +
           ", has no function InitializeInjectionNvtx2, so that it is no NVTX tool. Correct the "
           "variable, or unset it.";
  if (reinterpret_cast<InitializeInjection>(entry)(&get_export_table) == 0)
    return "the NVTX tool of NVTX_INJECTION64_PATH, " + tool + ", refused to attach";
  take_functions();
  return {};
}

}  // namespace

range_tools::FoundTool find_tool() {
  return range_tools::attach_once(range_tools::ToolKind::nvtx, kTool, &attach);
}

}  // namespace nvtx
FASTPROF_NAMESPACE_END
