// SPDX-License-Identifier: Apache-2.0
// A libtorch_cpu that has debug info and memory reports only, with kinds that are enumerated: what
// c10/util/ThreadLocalDebugInfo.h and c10/core/Allocator.h declared before kinds became open.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace c10 {

enum class DebugInfoKind : uint8_t { first, second, PROFILER_STATE, last };

struct Device {
  int8_t type;
  int8_t index;
};

class DebugInfoBase {
 public:
  virtual ~DebugInfoBase() = default;
};

class MemoryReportingInfoBase : public DebugInfoBase {
 public:
  virtual void reportMemoryUsage(void*, int64_t, size_t, size_t, Device) = 0;
  virtual void reportOutOfMemory(int64_t, size_t, size_t, Device) = 0;
  virtual bool memoryProfilingEnabled() const = 0;
};

class ThreadLocalDebugInfo {
 public:
  static DebugInfoBase* get(DebugInfoKind kind);
  static std::shared_ptr<ThreadLocalDebugInfo> current();
  static void _push(DebugInfoKind kind, std::shared_ptr<DebugInfoBase> info);
  static std::shared_ptr<DebugInfoBase> _pop(DebugInfoKind kind);

  std::shared_ptr<DebugInfoBase> info_;
  DebugInfoKind kind_;
  std::shared_ptr<ThreadLocalDebugInfo> parent_info_;
};

namespace {

thread_local std::shared_ptr<ThreadLocalDebugInfo> top;

MemoryReportingInfoBase* told() {
  return static_cast<MemoryReportingInfoBase*>(
      ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE));
}

}  // namespace

DebugInfoBase* ThreadLocalDebugInfo::get(DebugInfoKind kind) {
  for (const ThreadLocalDebugInfo* link = top.get(); link; link = link->parent_info_.get())
    if (link->kind_ == kind) return link->info_.get();
  return nullptr;
}

std::shared_ptr<ThreadLocalDebugInfo> ThreadLocalDebugInfo::current() {
  return top;
}

void ThreadLocalDebugInfo::_push(DebugInfoKind kind, std::shared_ptr<DebugInfoBase> info) {
  auto link = std::make_shared<ThreadLocalDebugInfo>();
  link->info_ = std::move(info);
  link->kind_ = kind;
  link->parent_info_ = top;
  top = std::move(link);
}

std::shared_ptr<DebugInfoBase> ThreadLocalDebugInfo::_pop(DebugInfoKind kind) {
  if (!top || top->kind_ != kind) throw std::runtime_error("another kind is on top");
  const auto link = top;
  top = link->parent_info_;
  return link->info_;
}

bool memoryProfilingEnabled() {
  return told() != nullptr && told()->memoryProfilingEnabled();
}

void reportMemoryUsageToProfiler(void* ptr, int64_t size, size_t allocated, size_t reserved,
                                 Device device) {
  if (told() != nullptr) told()->reportMemoryUsage(ptr, size, allocated, reserved, device);
}

void reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device device) {
  if (told() != nullptr) told()->reportOutOfMemory(size, allocated, reserved, device);
}

}  // namespace c10

extern "C" void report(int64_t size_bytes) {
  c10::reportMemoryUsageToProfiler(nullptr, size_bytes, 100, 200, c10::Device{0, -1});
}

extern "C" int links() {
  int count = 0;
  for (auto link = c10::ThreadLocalDebugInfo::current(); link; link = link->parent_info_) ++count;
  return count;
}
