// SPDX-License-Identifier: Apache-2.0
// Declares c10::ThreadLocalDebugInfo and c10::MemoryReportingInfoBase without libtorch's headers:
// functions looked up at run time, the order of virtual functions, and the fields of a chain link.
// Facts from the public headers c10/util/ThreadLocalDebugInfo.h and c10/core/Allocator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Mirrors c10::DebugInfoBase: polymorphic, with a virtual destructor only.
struct DebugInfoView {
  virtual ~DebugInfoView() = default;
};

// Mirrors c10::Device, passed by value.
struct DeviceView {
  int8_t type;
  int8_t index;
};

// Mirrors c10::MemoryReportingInfoBase: the order of the functions is the ABI.
struct MemoryReportingView : DebugInfoView {
  virtual void report_memory_usage(void* ptr, int64_t size_bytes, size_t total_allocated_bytes,
                                   size_t total_reserved_bytes, DeviceView device) = 0;
  virtual void report_out_of_memory(int64_t size_bytes, size_t total_allocated_bytes,
                                    size_t total_reserved_bytes, DeviceView device) = 0;
  virtual bool memory_profiling_enabled() const = 0;
};

// A kind of debug info: the address of its name if kinds are open, else its enumeration value. Both
// are passed in a register.
using DebugInfoKindView = const void*;

// How a version represents kinds. Open kinds are addresses, 8 bytes, and libtorch exports
// PROFILER_STATE as an object. Enumerated kinds are one byte; the headers define the value of
// PROFILER_STATE.
struct DebugInfoKinds {
  uint32_t bytes;           // 8 or 1
  uint32_t profiler_state;  // enumeration value; 0 if kinds are open
};

// Returns the entry of a version; null if it is not in the table, which lists only versions on
// which the self-test was run. Other versions are read from the headers
// (fastprof.adapters.torch.headers).
const DebugInfoKinds* find_debug_info_kinds(std::string_view version) noexcept;

// fastprof's own kinds, which libtorch never looks up.
enum class OwnKind : uint8_t { candidate = 0xFC, sessions = 0xFD, retired = 0xFE };

// Mirrors c10::ThreadLocalDebugInfo, a link of a thread's chain: shared with the threads that
// inherited the chain; libtorch never modifies it.
struct DebugInfoLink {
  std::shared_ptr<DebugInfoView> info;
  union {
    DebugInfoKindView open_kind;
    uint8_t enumerated_kind;
  };
  std::shared_ptr<DebugInfoLink> parent;
};
static_assert(sizeof(DebugInfoLink) == 40, "as in libtorch");

// libtorch's functions; all of them are set. Each acts on the calling thread's chain.
struct DebugInfoFunctions {
  DebugInfoView* (*get)(DebugInfoKindView);  // newest of a kind, or null
  std::shared_ptr<DebugInfoLink> (*current)();
  void (*push)(DebugInfoKindView, std::shared_ptr<DebugInfoView>);
  std::shared_ptr<DebugInfoView> (*pop)(DebugInfoKindView);  // throws unless the top has this kind
  DebugInfoKindView profiler_state;
  bool open_kinds;
  // For the self-test only: called by allocators.
  bool (*memory_profiling_enabled)();
  void (*report_memory_usage)(void*, int64_t, size_t, size_t, DeviceView);
  void (*report_out_of_memory)(int64_t, size_t, size_t, DeviceView);

  DebugInfoKindView own(OwnKind kind) const noexcept;

  // Returns the kind of a link, which other threads may read at the same time (libtorch reads it
  // non-atomically: one aligned word or byte). Relaxed; partners: set_kind and its readers.
  DebugInfoKindView kind_of(const DebugInfoLink& link) const noexcept {
    if (open_kinds) return __atomic_load_n(&link.open_kind, __ATOMIC_RELAXED);
    return number(__atomic_load_n(&link.enumerated_kind, __ATOMIC_RELAXED));
  }
  void set_kind(DebugInfoLink& link, DebugInfoKindView kind) const noexcept {
    if (open_kinds)
      __atomic_store_n(&link.open_kind, kind, __ATOMIC_RELAXED);
    else
      __atomic_store_n(&link.enumerated_kind,
                       static_cast<uint8_t>(reinterpret_cast<uintptr_t>(kind)), __ATOMIC_RELAXED);
  }

  static DebugInfoKindView number(uint8_t kind) noexcept {
    return reinterpret_cast<DebugInfoKindView>(uintptr_t{kind});
  }
};

// Looks the functions up in the loaded libtorch. Returns null and sets `*why` if one is missing or
// the kinds have another form; no function is called in that case. The result stays valid. Any
// thread.
const DebugInfoFunctions* find_debug_info_functions(const DebugInfoKinds& kinds,
                                                    const char** why) noexcept;

// Deviations that a test simulates, which must be rejected.
enum class ForgedLayout { none, order_of_functions, fields_of_a_link };

// Verifies the declarations above against libtorch. Returns null if they hold, else what differs.
// Pushes a probe on a separate thread, and compares what libtorch calls and stores with what was
// passed; reads nothing but a link that libtorch created. Whatever libtorch calls on the probe is
// one of its functions, none of which dereferences an argument. Not thread-safe.
const char* test_debug_info(const DebugInfoFunctions& functions,
                            ForgedLayout forged = ForgedLayout::none) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
