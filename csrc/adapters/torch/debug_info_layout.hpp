// SPDX-License-Identifier: Apache-2.0
// What is known of c10::ThreadLocalDebugInfo and of those who are told of memory there, without the
// headers: functions found at run time, the order of virtual functions, and the fields of a link.
// Facts of the public headers c10/util/ThreadLocalDebugInfo.h and c10/core/Allocator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

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

// A kind of debug info is the address of its name. (Older versions have an enum here: those export
// no object PROFILER_STATE.)
using DebugInfoKindView = const void*;

// A link of a thread's chain, c10::ThreadLocalDebugInfo: shared with the threads that took the
// chain over, and by libtorch never changed.
struct DebugInfoLink {
  std::shared_ptr<DebugInfoView> info;
  DebugInfoKindView kind;
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
  // For the self-test only: what allocators call.
  bool (*memory_profiling_enabled)();
  void (*report_memory_usage)(void*, int64_t, size_t, size_t, DeviceView);
  void (*report_out_of_memory)(int64_t, size_t, size_t, DeviceView);
};

// Finds them in the loaded libtorch. Null and `*why` when one is missing or the kinds are no open
// ones. Any thread.
const DebugInfoFunctions* find_debug_info_functions(const char** why) noexcept;

// What a test forges, to see it refused.
enum class ForgedLayout { none, order_of_functions, fields_of_a_link };

// Null when what is declared above holds, else what does not. Pushes a probe on a thread of its own
// and compares what libtorch calls and keeps with what was handed over; nothing but a link that
// libtorch made is read. Whatever it calls there is a function of the probe, none of which follows
// a pointer. Not for several threads at once.
const char* test_debug_info(const DebugInfoFunctions& functions,
                            ForgedLayout forged = ForgedLayout::none) noexcept;

// The kind of a link, which other threads may read meanwhile (libtorch reads it plainly: one
// aligned word). Partners: retire and its readers.
inline DebugInfoKindView kind_of(const DebugInfoLink& link) noexcept {
  return __atomic_load_n(&link.kind, __ATOMIC_RELAXED);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
