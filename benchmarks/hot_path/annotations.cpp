// SPDX-License-Identifier: Apache-2.0
// Measures ranges that a program reports through NVTX and the injection library receives, next to
// FASTPROF_RANGE; and FASTPROF_RANGE emitted to an NVTX tool, next to a bare push and pop.
//
// Usage: annotations --rounds N --json FILE --injection LIBRARY --collector LIBRARY
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fastprof/fastprof.hpp>
#include <string>

#include "../harness/bench.hpp"
#include "../harness/options.hpp"
#include "backends/nvtx/nvtx_abi.hpp"
#include "backends/nvtx/nvtx_tool.hpp"
#include "core/range_emission.hpp"

namespace nvtx = fastprof::nvtx;

// The NVTX part of a program: a function pointer for each call, as NVTX's headers define it.
namespace program {

nvtx::FunctionPointer core[nvtx::core::count], core2[nvtx::core2::count];
nvtx::FunctionPointer* core_table[nvtx::core::count];
nvtx::FunctionPointer* core2_table[nvtx::core2::count];

static_assert(int{nvtx::core::count} == int{nvtx::core2::count});

int module_table(nvtx::Module module, nvtx::FunctionTable* table, unsigned int* count) {
  const bool is_core = module == nvtx::Module::core;
  if (!is_core && module != nvtx::Module::core2) return 0;
  *table = is_core ? core_table : core2_table;
  *count = nvtx::core::count;
  return 1;
}

const void* export_table(nvtx::ExportTable table) {
  static const nvtx::CallbacksTable callbacks{sizeof callbacks, &module_table};
  return table == nvtx::ExportTable::callbacks ? &callbacks : nullptr;
}

void attach(const char* library) {
  for (unsigned i = 1; i < nvtx::core::count; ++i) core_table[i] = &core[i];
  for (unsigned i = 1; i < nvtx::core2::count; ++i) core2_table[i] = &core2[i];
  void* tool = dlopen(library, RTLD_LAZY);
  void* entry = tool != nullptr ? dlsym(tool, nvtx::kInjectionEntry) : nullptr;
  if (entry == nullptr || reinterpret_cast<nvtx::InitializeInjection>(entry)(&export_table) == 0) {
    std::fprintf(stderr, "cannot attach %s\n", library);
    std::exit(1);
  }
}

template <class Function>
Function* call(const nvtx::FunctionPointer& pointer) {
  return reinterpret_cast<Function*>(pointer);
}

}  // namespace program

__attribute__((noinline)) static void ranges(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_RANGE("range");
    __asm__ volatile("" ::: "memory");
  }
}
__attribute__((noinline)) static void dynamic_ranges(size_t n) {
  const std::string name = "some range";
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_RANGE_DYNAMIC(name);
    __asm__ volatile("" ::: "memory");
  }
}
// The pointers are loaded in each iteration, as in NVTX's headers.
template <const char* text>
__attribute__((noinline)) void pushes_of(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    program::call<int(const char*)>(program::core[nvtx::core::RangePushA])(text);
    __asm__ volatile("" ::: "memory");
    program::call<int()>(program::core[nvtx::core::RangePop])();
    __asm__ volatile("" ::: "memory");
  }
}
constexpr char some_text[] = "some range";
constexpr char emitted_text[] = "range, op_id = 100000";  // as long as the emitted text
constexpr auto pushes = &pushes_of<some_text>;

__attribute__((noinline)) static void pushes_in_domain(size_t n) {
  void* const domain =
      program::call<void*(const char*)>(program::core2[nvtx::core2::DomainCreateA])("benchmark");
  nvtx::EventAttributes event{};
  event.version = nvtx::kVersion;
  event.size = sizeof event;
  event.message_type = nvtx::MessageType::registered;
  event.message.registered = program::call<const void*(void*, const char*)>(
      program::core2[nvtx::core2::DomainRegisterStringA])(domain, "some range");
  event.color_type = nvtx::ColorType::argb;
  event.color = 0xFF00FF00;
  event.payload_type = nvtx::PayloadType::int64;
  for (size_t i = 0; i < n; ++i) {
    event.payload.int64 = static_cast<int64_t>(i);
    program::call<int(void*, const nvtx::EventAttributes*)>(
        program::core2[nvtx::core2::DomainRangePushEx])(domain, &event);
    __asm__ volatile("" ::: "memory");
    program::call<int(void*)>(program::core2[nvtx::core2::DomainRangePop])(domain);
    __asm__ volatile("" ::: "memory");
  }
}

// Runs the body n times in a session that overwrites its oldest records.
template <void (*body)(size_t)>
double recorded(size_t n) {
  fastprof::SessionOptions options;
  options.overflow = fastprof::OverflowPolicy::overwrite_oldest;
  options.max_bytes = 8u << 20;
  fastprof::Session session(options);
  session.start();
  const double ns = bench::timed([n] { body(n); });
  session.stop();
  return ns;
}
template <void (*body)(size_t)>
double plain(size_t n) {
  return bench::timed([n] { body(n); });
}

static const char* option(int argc, char** argv, const char* name) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  std::fprintf(stderr, "missing %s\n", name);
  std::exit(2);
}

int main(int argc, char** argv) {
  const bench::Options options = bench::parse_options(argc, argv, 0);
  constexpr size_t n = 20000;  // short, so that some rounds are not interrupted on a busy machine

  program::attach(option(argc, argv, "--injection"));
  bench::Suite unrecorded;
  unrecorded.add("FASTPROF_RANGE, nothing ever recorded", n, &plain<ranges>);
  unrecorded.add("NVTX push and pop received, the same", n, &plain<pushes>);
  unrecorded.run(options.rounds);
  unrecorded.report("NVTX received, no session", options.json);

  bench::Suite received;
  received.add("FASTPROF_RANGE, on", n, &recorded<ranges>);
  received.add("FASTPROF_RANGE_DYNAMIC, on", n, &recorded<dynamic_ranges>);
  received.add("NVTX push and pop received, on", n, &recorded<pushes>);
  received.add("the same with domain, color, payload", n, &recorded<pushes_in_domain>);
  received.add("FASTPROF_RANGE, off", n, &plain<ranges>);
  received.add("NVTX push and pop received, off", n, &plain<pushes>);
  received.run(options.rounds);
  received.report("NVTX received", options.json);

  // From here on, NVTX's calls go to the collector. Ranges are emitted to it, too.
  const char* const collector = option(argc, argv, "--collector");
  program::attach(collector);
  setenv(nvtx::kInjectionVariable, collector, 1);
  const fastprof::range_tools::FoundTool found = nvtx::find_tool();
  if (found.tool == nullptr) {
    std::fprintf(stderr, "%s\n", found.problem.c_str());
    return 1;
  }
  bench::Suite emitted;
  emitted.add("bare NVTX push and pop under a collector", n, &plain<&pushes_of<emitted_text>>);
  emitted.add("FASTPROF_RANGE emitted to it", n, [&](size_t count) {
    fastprof::range_tools::start_emitting(fastprof::range_tools::ToolKind::nvtx, *found.tool,
                                          false);
    const double ns = plain<ranges>(count);
    fastprof::range_tools::stop_emitting(fastprof::range_tools::ToolKind::nvtx);
    return ns;
  });
  emitted.run(options.rounds);
  emitted.report("NVTX emitted", options.json);
  if (options.json != nullptr) std::fclose(options.json);
  return 0;
}
