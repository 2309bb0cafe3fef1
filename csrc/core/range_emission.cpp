// SPDX-License-Identifier: Apache-2.0
// RecordFunction callbacks that emit ranges: see range_emission.hpp.
#include "core/range_emission.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "core/emission_times.hpp"
#include "fastprof/base/child_handler.hpp"
#include "fastprof/legacy/input_shapes.hpp"
#include "fastprof/legacy/nvtx_text.hpp"
#include "fastprof/primitives/callbacks.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/primitives/thread_identity.hpp"
#include "fastprof/recorder/hot_path/thread.hpp"
#include "fastprof/recorder/state/ticks.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {
namespace {

constexpr size_t kNvtx = static_cast<size_t>(ToolKind::nvtx);
constexpr size_t kItt = static_cast<size_t>(ToolKind::itt);

// `tool` stays set after stop_emitting(), for ranges that end later. Stored with release by
// start_emitting(); partner: the acquire load in tool_of().
struct Emission {
  const RangeTool* tool = nullptr;
  CallbackHandle callback = kInvalidCallbackHandle;
};
Emission g_emissions[kToolKinds];

std::mutex g_lock;
// Guards the attachment of one tool: a tool may load libraries meanwhile.
struct Attachment {
  std::mutex lock;
  bool attached = false;
};
Attachment g_attachments[kToolKinds];

TensorProducers& producers() noexcept {
  static TensorProducers& all = *new TensorProducers;
  return all;
}

const RangeTool& tool_of(size_t kind) noexcept {
  return *load_acquire(&g_emissions[kind].tool);
}

std::unique_ptr<ObserverContext> push_nvtx(const RecordFunction& function) {
  NvtxText text;
  text.add_head(function.name(), function.sequence_number(), function.handle());
  tool_of(kNvtx).push(text.c_str());
  return nullptr;
}

std::unique_ptr<ObserverContext> push_nvtx_with_shapes(const RecordFunction& function) {
  const std::string text = nvtx_range_text(function.name(), function.sequence_number(),
                                           function.handle(), input_shapes(function.inputs(), true),
                                           producers().of_inputs(function.inputs()));
  tool_of(kNvtx).push(text.c_str());
  return nullptr;
}

std::unique_ptr<ObserverContext> push_itt(const RecordFunction& function) {
  tool_of(kItt).push(function.name_c_str());
  return nullptr;
}

// An async range that ends on another thread is not popped: the pop would end one of that thread's
// ranges.
template <size_t kind>
void pop(const RecordFunction& function, ObserverContext*) {
  if (function.is_async() && function.thread_id() != current_thread_id()) return;
  tool_of(kind).pop();
}

void pop_nvtx_with_shapes(const RecordFunction& function, ObserverContext* context) {
  pop<kNvtx>(function, context);
  producers().produced(function.handle(), function.outputs());
}

// Another thread of the parent may have held the locks.
void renew_locks_in_child() noexcept {
  renew_lock(g_lock);
  for (Attachment& attachment : g_attachments) renew_lock(attachment.lock);
  new (&producers()) TensorProducers;
  EmissionTimes::of_process().renew_in_child();
}
void watch_forks() noexcept {
  static ChildHandler handler;
  handler.install(&renew_locks_in_child, producers(), EmissionTimes::of_process());
}

RecordFunctionCallback callback_of(ToolKind kind, bool shapes) {
  if (kind == ToolKind::itt) return RecordFunctionCallback(&push_itt, &pop<kItt>);
  if (!shapes) return RecordFunctionCallback(&push_nvtx, &pop<kNvtx>).needs_ids(true);
  return RecordFunctionCallback(&push_nvtx_with_shapes, &pop_nvtx_with_shapes)
      .needs_ids(true)
      .needs_inputs(true)
      .needs_outputs(true);
}

}  // namespace

FoundTool attach_once(ToolKind kind, const RangeTool& tool, std::string (*attach)()) {
  watch_forks();
  Attachment& one = g_attachments[static_cast<size_t>(kind)];
  const std::lock_guard<std::mutex> hold(one.lock);
  if (!one.attached) {
    const std::string problem = attach();
    if (!problem.empty()) return {nullptr, problem};
    one.attached = true;
  }
  return {&tool, {}};
}

void start_emitting(ToolKind kind, const RangeTool& tool, bool shapes) {
  watch_forks();
  const std::lock_guard<std::mutex> hold(g_lock);
  Emission& emission = g_emissions[static_cast<size_t>(kind)];
  if (emission.callback != kInvalidCallbackHandle)
    raise<StateError>(
        "ranges are being emitted already: leave the other emit_nvtx or emit_itt block first");
  store_release(&emission.tool, &tool);
  if (kind == ToolKind::nvtx) EmissionTimes::of_process().begin(ticks(state()));
  emission.callback = add_global_callback(callback_of(kind, shapes));
}

void stop_emitting(ToolKind kind) noexcept {
  const std::lock_guard<std::mutex> hold(g_lock);
  Emission& emission = g_emissions[static_cast<size_t>(kind)];
  if (emission.callback == kInvalidCallbackHandle) return;
  remove_callback(emission.callback);
  emission.callback = kInvalidCallbackHandle;
  if (kind == ToolKind::nvtx) EmissionTimes::of_process().end(ticks(state()));
}

}  // namespace range_tools
FASTPROF_NAMESPACE_END
