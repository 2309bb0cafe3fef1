// SPDX-License-Identifier: Apache-2.0
// Looks up and verifies the functions of c10::ThreadLocalDebugInfo: see debug_info_layout.hpp.
#include "adapters/torch/debug_info/debug_info_layout.hpp"

#include <dlfcn.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "adapters/torch/layout/loaded_library.hpp"
#include "adapters/torch/layout/release_table.hpp"
#include "adapters/torch/layout/symbol_names.hpp"
#include "fastprof/platform/symbols.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Returns the value of the object PROFILER_STATE: a pointer to data of a loaded library. Null if
// the symbol is missing or has another form.
DebugInfoKindView read_open_kind(void* library) noexcept {
  void* object = find_symbol(library, "_ZN3c1013DebugInfoKind14PROFILER_STATEE");
  if (object == nullptr) return nullptr;
  Dl_info where{};
  if (platform::symbol_size(object) != sizeof(DebugInfoKindView)) return nullptr;
  DebugInfoKindView kind = nullptr;
  std::memcpy(&kind, object, sizeof kind);
  return kind != nullptr && dladdr(kind, &where) != 0 ? kind : nullptr;
}

// The calls that a probe received.
struct Reports {
  int enabled = 0;
  int usage = 0;
  int out_of_memory = 0;
  int destroyed = 0;
  void* ptr = nullptr;
  int64_t size_bytes = 0;
  size_t total_allocated_bytes = 0;
  size_t total_reserved_bytes = 0;
  int device_type = -1;
  int device_index = -1;
};

// Not final, as ForgedProbe and Reporter: clang 21 warns of virtual functions that a final class
// adds.
struct Probe : MemoryReportingView {
  explicit Probe(Reports* to) : reports(to) {}
  ~Probe() override { ++reports->destroyed; }
  void report_memory_usage(void* ptr, int64_t size_bytes, size_t allocated, size_t reserved,
                           DeviceView device) override {
    *reports = {reports->enabled,
                reports->usage + 1,
                reports->out_of_memory,
                reports->destroyed,
                ptr,
                size_bytes,
                allocated,
                reserved,
                device.type,
                device.index};
  }
  void report_out_of_memory(int64_t size_bytes, size_t allocated, size_t reserved,
                            DeviceView device) override {
    *reports = {reports->enabled,   reports->usage, reports->out_of_memory + 1,
                reports->destroyed, nullptr,        size_bytes,
                allocated,          reserved,       device.type,
                device.index};
  }
  bool memory_profiling_enabled() const override {
    ++reports->enabled;
    return true;
  }
  // If a later libtorch declares more virtual functions, it still calls a function here.
  virtual void unknown_0() {}
  virtual void unknown_1() {}
  virtual void unknown_2() {}
  virtual void unknown_3() {}
  Reports* reports;
};

// As Probe, with the functions in another order.
struct ForgedProbe : DebugInfoView {
  explicit ForgedProbe(Reports* to) : reports(to) {}
  ~ForgedProbe() override { ++reports->destroyed; }
  virtual bool memory_profiling_enabled() const {
    ++reports->enabled;
    return true;
  }
  virtual void report_memory_usage(void*, int64_t, size_t, size_t, DeviceView) { ++reports->usage; }
  virtual void report_out_of_memory(int64_t, size_t, size_t, DeviceView) {
    ++reports->out_of_memory;
  }
  Reports* reports;
};

const char* test_reports(const DebugInfoFunctions& f, const Reports& reports) {
  auto* const ptr = reinterpret_cast<void*>(uintptr_t{0x1234560});
  if (f.memory_profiling_enabled() != true || reports.enabled != 1 || reports.usage != 0 ||
      reports.out_of_memory != 0)
    return "a memory reporter is not queried as expected";
  f.report_memory_usage(ptr, -77, 88, 99, DeviceView{3, 5});
  if (reports.usage != 1 || reports.out_of_memory != 0 || reports.ptr != ptr ||
      reports.size_bytes != -77 || reports.total_allocated_bytes != 88 ||
      reports.total_reserved_bytes != 99 || reports.device_type != 3 || reports.device_index != 5)
    return "a memory reporter does not receive allocations as expected";
  f.report_out_of_memory(1234, 56, 78, DeviceView{1, 2});
  if (reports.usage != 1 || reports.out_of_memory != 1 || reports.size_bytes != 1234 ||
      reports.total_allocated_bytes != 56 || reports.total_reserved_bytes != 78 ||
      reports.device_type != 1 || reports.device_index != 2)
    return "a memory reporter does not receive failed allocations as expected";
  return nullptr;
}

const char* test_all(const DebugInfoFunctions& f, ForgedLayout forged) {
  const DebugInfoKindView other_kind = f.own(OwnKind::candidate);
  Reports reports;
  std::shared_ptr<DebugInfoView> probe;
  if (forged == ForgedLayout::order_of_functions)
    probe = std::make_shared<ForgedProbe>(&reports);
  else
    probe = std::make_shared<Probe>(&reports);
  if (f.get(f.profiler_state) != nullptr || f.current() != nullptr)
    return "a new thread already has debug info";
  f.push(f.profiler_state, probe);
  std::shared_ptr<DebugInfoLink> link = f.current();
  if (f.get(f.profiler_state) != probe.get() || link == nullptr)
    return "pushed debug info is not returned";
  // Reads only within the 40 bytes of a link that libtorch has just created.
  const bool moved = forged == ForgedLayout::fields_of_a_link;
  const DebugInfoKindView kind =
      moved ? static_cast<DebugInfoKindView>(link->info.get()) : f.kind_of(*link);
  if (link->info.get() != probe.get() || kind != f.profiler_state || link->parent != nullptr) {
    f.pop(f.profiler_state);
    return "the layout of a debug info link is unknown";
  }
  const char* wrong = test_reports(f, reports);
  f.set_kind(*link, other_kind);
  if (wrong == nullptr && (f.get(f.profiler_state) != nullptr || f.get(other_kind) != probe.get()))
    wrong = "debug info is not looked up by its kind";
  if (f.pop(other_kind) != probe || f.current() != nullptr)
    wrong = "popped debug info is not returned";
  link.reset();
  probe.reset();
  if (wrong == nullptr && reports.destroyed != 1) wrong = "popped debug info is not destroyed";
  return wrong;
}

// Only the addresses are used.
const char own_kinds[256] = {};

// Returns null and sets `*why` if the library's kinds have another form.
DebugInfoKindView find_profiler_state(void* library, const DebugInfoKinds& kinds,
                                      const char** why) noexcept {
  const DebugInfoKindView open = read_open_kind(library);
  if (kinds.bytes == sizeof(DebugInfoKindView)) {
    if (open == nullptr) *why = "its debug info has no kind PROFILER_STATE";
    return open;
  }
  if (open != nullptr || kinds.bytes != 1 || kinds.profiler_state == 0 ||
      kinds.profiler_state >= static_cast<uint32_t>(OwnKind::candidate)) {
    *why = "its enumeration of debug info kinds is unknown";
    return nullptr;
  }
  return DebugInfoFunctions::number(static_cast<uint8_t>(kinds.profiler_state));
}

}  // namespace

DebugInfoKindView DebugInfoFunctions::own(OwnKind kind) const noexcept {
  const auto at = static_cast<uint8_t>(kind);
  return open_kinds ? &own_kinds[at] : number(at);
}

const DebugInfoKinds* find_debug_info_kinds(std::string_view version) noexcept {
  // Rows as in record_function_layout.cpp. No strings are passed, so both string ABIs have the same
  // form.
  static constexpr KnownReleases<DebugInfoKinds> known[] = {
      {{2, 13}, kNewestRelease, StringAbi::libstdcxx, {sizeof(DebugInfoKindView), 0}},
      {{2, 6}, {2, 12}, StringAbi::libstdcxx, {1, 2}},
      {{2, 13}, {2, 13}, StringAbi::libcxx_alternate, {sizeof(DebugInfoKindView), 0}},
  };
  return find_release(known, version, string_abi_here(true));
}

const DebugInfoFunctions* find_debug_info_functions(const DebugInfoKinds& kinds,
                                                    const char** why) noexcept {
  struct Found {
    DebugInfoKinds kinds;
    DebugInfoFunctions functions;
  };
  static std::mutex lock;
  static std::deque<Found>& all = *new std::deque<Found>;  // one entry per form that was tried
  const std::lock_guard<std::mutex> hold(lock);
  for (const Found& found : all)
    if (found.kinds.bytes == kinds.bytes && found.kinds.profiler_state == kinds.profiler_state)
      return &found.functions;
  void* library = loaded_libtorch(why);
  if (library == nullptr) return nullptr;
  DebugInfoFunctions f{};
  f.open_kinds = kinds.bytes == sizeof(DebugInfoKindView);
  f.profiler_state = find_profiler_state(library, kinds, why);
  if (f.profiler_state == nullptr) return nullptr;
  const bool has_all =
      find_function(library, "_ZN3c1020ThreadLocalDebugInfo3getENS_13DebugInfoKindE", f.get) &&
      find_function(library, "_ZN3c1020ThreadLocalDebugInfo7currentEv", f.current) &&
      find_function(library, kSymbolNames.push_debug_info, f.push) &&
      find_function(library, "_ZN3c1020ThreadLocalDebugInfo4_popENS_13DebugInfoKindE", f.pop) &&
      find_function(library, "_ZN3c1022memoryProfilingEnabledEv", f.memory_profiling_enabled) &&
      find_function(library, kSymbolNames.report_memory_usage, f.report_memory_usage) &&
      find_function(library, kSymbolNames.report_out_of_memory, f.report_out_of_memory);
  if (!has_all) {
    *why = "libtorch lacks a function of c10::ThreadLocalDebugInfo or of memory reports";
    return nullptr;
  }
  return &all.emplace_back(Found{kinds, f}).functions;
}

const char* test_debug_info(const DebugInfoFunctions& functions, ForgedLayout forged) noexcept {
  const char* wrong = "the self-test of memory reports failed to start";
  try {
    std::thread thread([&] {
      try {
        wrong = test_all(functions, forged);
      } catch (...) {
        wrong = "libtorch raised an exception in the self-test of memory reports";
      }
    });
    thread.join();
  } catch (...) {
  }
  return wrong;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
