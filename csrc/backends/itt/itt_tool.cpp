// SPDX-License-Identifier: Apache-2.0
// The program's side of ITT: see itt_tool.hpp.
#include "backends/itt/itt_tool.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "backends/itt/itt_abi.hpp"
#include "core/range_emission.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace itt {
namespace {

using CreateDomain = Domain* (*)(const char* name);
using CreateString = StringHandle* (*)(const char* text);
using BeginTask = void (*)(const Domain* domain, Id id, Id parent, StringHandle* name);
using EndTask = void (*)(const Domain* domain);

// Functions that the collector fills in; null: not provided.
CreateDomain g_create_domain = nullptr;
CreateString g_create_string = nullptr;
BeginTask g_begin_task = nullptr;
EndTask g_end_task = nullptr;
const Domain* g_domain = nullptr;

constexpr uint32_t kStructureGroup = 1u << 12;  // of tasks, domains and strings

// Read by collectors until the process ends.
Global& global() noexcept {
  static Global& one = *[] {
    static ApiInfo list[] = {
        {"__itt_domain_create", reinterpret_cast<void**>(&g_create_domain), nullptr, nullptr,
         kStructureGroup},
        {"__itt_string_handle_create", reinterpret_cast<void**>(&g_create_string), nullptr, nullptr,
         kStructureGroup},
        {"__itt_task_begin", reinterpret_cast<void**>(&g_begin_task), nullptr, nullptr,
         kStructureGroup},
        {"__itt_task_end", reinterpret_cast<void**>(&g_end_task), nullptr, nullptr,
         kStructureGroup},
        {nullptr, nullptr, nullptr, nullptr, 0},
    };
    auto* made = new Global{};
    std::memcpy(made->magic, kMagic, sizeof kMagic);
    made->version_major = 3;
    made->mutex_initialized = 1;
    ::pthread_mutex_init(&made->mutex, nullptr);
    made->api_list = list;
    return made;
  }();
  return one;
}

void push(const char* text) {
  g_begin_task(g_domain, kNoId, kNoId, g_create_string(text));
}
void pop() {
  g_end_task(g_domain);
}
void mark(const char* text) {
  push(text);
  pop();
}
constexpr range_tools::RangeTool kTool{&push, &pop, &mark};

// Returns "" once a collector is attached.
std::string attach() {
  const char* const path = std::getenv(kCollectorVariable);
  if (path == nullptr || path[0] == '\0')
    return "no ITT collector is attached (INTEL_LIBITTNOTIFY64 is not set). Start the program "
           "under a tool: vtune -collect hotspots ...";
  const std::string tool(path);
  // Never closed: its functions are called until the process ends.
  void* const library = ::dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    return "cannot load the ITT collector of INTEL_LIBITTNOTIFY64: " +
           std::string(reason != nullptr ? reason : path) + ". Correct the variable, or unset it.";
  }
  void* const entry = ::dlsym(library, kCollectorEntry);
  if (entry == nullptr)
    return "the library of INTEL_LIBITTNOTIFY64, " + tool +
           ", has no function __itt_api_init, so that it is no ITT collector. Correct the "
           "variable, or unset it.";
  global().library = library;
  reinterpret_cast<ApiInit>(entry)(&global(), kAllGroups);
  if (g_create_domain == nullptr || g_create_string == nullptr || g_begin_task == nullptr ||
      g_end_task == nullptr)
    return "the ITT collector of INTEL_LIBITTNOTIFY64, " + tool + ", takes no tasks";
  g_domain = g_create_domain("fastprof");
  if (g_domain == nullptr) return "the ITT collector " + tool + " made no domain";
  global().api_initialized = 1;
  return {};
}

}  // namespace

range_tools::FoundTool find_tool() {
  return range_tools::attach_once(range_tools::ToolKind::itt, kTool, &attach);
}

}  // namespace itt
FASTPROF_NAMESPACE_END
