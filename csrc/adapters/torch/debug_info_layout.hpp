// SPDX-License-Identifier: Apache-2.0
// What is known of c10::ThreadLocalDebugInfo and of those who are told of memory there, without the
// headers: functions found at run time, the order of virtual functions, and the fields of a link.
// Facts of the public headers c10/util/ThreadLocalDebugInfo.h and c10/core/Allocator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// c10::DebugInfoBase: polymorphic with a virtual destructor and nothing else.
struct DebugInfoView {
  virtual ~DebugInfoView() = default;
};

// c10::Device, passed by value.
struct DeviceView {
  int8_t type;
  int8_t index;
};

// c10::MemoryReportingInfoBase: the order of these is the ABI.
struct MemoryReportingView : DebugInfoView {
  virtual void report_memory_usage(void* ptr, int64_t size_bytes, size_t total_allocated_bytes,
                                   size_t total_reserved_bytes, DeviceView device) = 0;
  virtual void report_out_of_memory(int64_t size_bytes, size_t total_allocated_bytes,
                                    size_t total_reserved_bytes, DeviceView device) = 0;
  virtual bool memory_profiling_enabled() const = 0;
};

// A kind of debug info: the address of its name, where kinds are open, else the number of one of an
// enumeration. Either is handed over in a register.
using DebugInfoKindView = const void*;

// How kinds are told apart, by version. Open ones are addresses, 8 bytes, and libtorch exports
// PROFILER_STATE as an object; enumerated ones are one byte, and its number is in the headers.
struct DebugInfoKinds {
  uint32_t bytes;           // 8 or 1
  uint32_t profiler_state;  // the number; 0 where kinds are open
};

// Those of a version; null when it is not in the table, which lists only what the self-test was run
// on. Others are read from the headers (fastprof.adapters.torch.headers).
const DebugInfoKinds* find_debug_info_kinds(std::string_view version) noexcept;

// Kinds of ours, which libtorch never looks up.
enum class OwnKind : uint8_t { tried = 0xFC, travel = 0xFD, retired = 0xFE };

// A link of a thread's chain, c10::ThreadLocalDebugInfo: shared with the threads that took the
// chain over, and by libtorch never changed.
struct DebugInfoLink {
  std::shared_ptr<DebugInfoView> info;
  union {
    DebugInfoKindView open_kind;
    uint8_t enumerated_kind;
  };
  std::shared_ptr<DebugInfoLink> parent;
};
static_assert(sizeof(DebugInfoLink) == 40, "as in libtorch");

// All or none are set. Each works on the calling thread's chain.
struct DebugInfoFunctions {
  DebugInfoView* (*get)(DebugInfoKindView);  // the nearest of a kind, or null
  std::shared_ptr<DebugInfoLink> (*current)();
  void (*push)(DebugInfoKindView, std::shared_ptr<DebugInfoView>);
  std::shared_ptr<DebugInfoView> (*pop)(DebugInfoKindView);  // throws unless it is the top's kind
  DebugInfoKindView profiler_state;
  bool open_kinds;
  // For the self-test only: what allocators call.
  bool (*memory_profiling_enabled)();
  void (*report_memory_usage)(void*, int64_t, size_t, size_t, DeviceView);
  void (*report_out_of_memory)(int64_t, size_t, size_t, DeviceView);

  DebugInfoKindView own(OwnKind kind) const noexcept;

  // The kind of a link, which other threads may read meanwhile (libtorch reads it plainly: one
  // aligned word, or byte). Partners: set_kind and its readers.
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

// Finds them in the loaded libtorch. Null and `*why` when one is missing or the kinds are of
// another form: then nothing was called. Once found they stay. Any thread.
const DebugInfoFunctions* find_debug_info_functions(const DebugInfoKinds& kinds,
                                                    const char** why) noexcept;

// What a test forges, to see it refused.
enum class ForgedLayout { none, order_of_functions, fields_of_a_link };

// Null when what is declared above holds, else what does not. Pushes a probe on a thread of its own
// and compares what libtorch calls and keeps with what was handed over; nothing but a link that
// libtorch made is read. Whatever it calls there is a function of the probe, none of which follows
// a pointer. Not for several threads at once.
const char* test_debug_info(const DebugInfoFunctions& functions,
                            ForgedLayout forged = ForgedLayout::none) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
