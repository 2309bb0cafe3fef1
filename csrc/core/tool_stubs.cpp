// SPDX-License-Identifier: Apache-2.0
// DeviceStubs that forward to an attached tool: see tool_stubs.hpp.
#include "core/tool_stubs.hpp"

#include <atomic>

#include "fastprof/legacy/device_stubs.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {
namespace {

// Like PyTorch's stubs for NVTX and ITT: tools have no devices and nothing to wait for.
class ToolStubs final : public DeviceStubs {
 public:
  explicit ToolStubs(FoundTool (*find)()) : find_(find) {}

  void record(int32_t* device_index, DeviceEvent* event, int64_t* cpu_ns) const override {
    *device_index = -1;
    event->reset();
    *cpu_ns = 0;
  }
  double elapsed_us(const DeviceEvent&, const DeviceEvent&) const override { return 0; }

  void mark(const char* text) const override {
    if (const RangeTool* tool = attached()) tool->mark(text);
  }
  void range_push(const char* text) const override {
    if (const RangeTool* tool = attached()) tool->push(text);
  }
  void range_pop() const override {
    if (const RangeTool* tool = attached()) tool->pop();
  }
  bool enabled() const override { return attached() != nullptr; }

  void on_each_device(const std::function<void(int32_t)>&) const override {}
  void synchronize() const override {}

 private:
  // Returns the tool, searching until there is one; it then stays attached. Stored with release;
  // partner: the acquire load here.
  const RangeTool* attached() const {
    const RangeTool* tool = tool_.load(std::memory_order_acquire);
    if (FASTPROF_UNLIKELY(tool == nullptr)) {
      tool = find_().tool;
      tool_.store(tool, std::memory_order_release);
    }
    return tool;
  }

  FoundTool (*const find_)();
  mutable std::atomic<const RangeTool*> tool_{nullptr};
};

}  // namespace

void register_tool_stubs(ToolKind kind, FoundTool (*find)()) {
  const DeviceStubsKind stubs =
      kind == ToolKind::nvtx ? DeviceStubsKind::NVTX : DeviceStubsKind::ITT;
  // Never destroyed: a profiler may use them while the process exits.
  if (device_stubs(stubs) == nullptr) register_device_stubs(stubs, new ToolStubs(find));
}

}  // namespace range_tools
FASTPROF_NAMESPACE_END
