// SPDX-License-Identifier: Apache-2.0
// The observers that emit ranges: see range_emission.hpp.
#include "core/range_emission.hpp"

#include <pthread.h>

#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "fastprof/legacy/input_shapes.hpp"
#include "fastprof/legacy/nvtx_text.hpp"
#include "fastprof/primitives/callbacks.hpp"
#include "fastprof/primitives/record_function.hpp"
#include "fastprof/primitives/thread_identity.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace range_tools {
namespace {

constexpr size_t kNvtx = static_cast<size_t>(ToolKind::nvtx);
constexpr size_t kItt = static_cast<size_t>(ToolKind::itt);

// `tool` stays set after stop_emitting(), for ranges that end later.
struct Emission {
  const RangeTool* tool = nullptr;
  CallbackHandle callback = kInvalidCallbackHandle;
};
Emission g_emissions[kToolKinds];

std::mutex& lock() noexcept {
  static std::mutex& one = *new std::mutex;
  return one;
}
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

// A range that ends on another thread cannot be popped there: it would end one of that thread's.
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
  new (&lock()) std::mutex;
  new (&producers()) TensorProducers;
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
  struct Attachment {
    std::mutex lock;  // of its own: a tool may load libraries while it attaches
    bool attached = false;
  };
  static Attachment* const all = new Attachment[kToolKinds];
  Attachment& one = all[static_cast<size_t>(kind)];
  const std::lock_guard<std::mutex> hold(one.lock);
  if (!one.attached) {
    const std::string problem = attach();
    if (!problem.empty()) return {nullptr, problem};
    one.attached = true;
  }
  return {&tool, {}};
}

void start_emitting(ToolKind kind, const RangeTool& tool, bool shapes) {
  static const int watches_forks = ::pthread_atfork(nullptr, nullptr, &renew_locks_in_child);
  (void)watches_forks;
  const std::lock_guard<std::mutex> hold(lock());
  Emission& emission = g_emissions[static_cast<size_t>(kind)];
  if (emission.callback != kInvalidCallbackHandle)
    raise<StateError>(
        "ranges are being emitted already: leave the other emit_nvtx or emit_itt block first");
  store_release(&emission.tool, &tool);
  emission.callback = add_global_callback(callback_of(kind, shapes));
}

void stop_emitting(ToolKind kind) noexcept {
  const std::lock_guard<std::mutex> hold(lock());
  Emission& emission = g_emissions[static_cast<size_t>(kind)];
  if (emission.callback == kInvalidCallbackHandle) return;
  remove_callback(emission.callback);
  emission.callback = kInvalidCallbackHandle;
}

}  // namespace range_tools
FASTPROF_NAMESPACE_END
