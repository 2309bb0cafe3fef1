// SPDX-License-Identifier: Apache-2.0
// The long way to begin an op: see detailed_op.hpp.
#include "adapters/torch/detailed_op.hpp"

#include <functional>

#include "adapters/torch/collective_metadata.hpp"
#include "adapters/torch/memory_reporter.hpp"
#include "adapters/torch/module_hierarchy.hpp"
#include "adapters/torch/op_inputs.hpp"
#include "adapters/torch/op_record.hpp"
#include "adapters/torch/session_travel.hpp"
#include "adapters/torch/thread_numbers.hpp"
#include "fastprof/primitives/scope_site.hpp"
#include "fastprof/recorder/detailed_range.hpp"
#include "fastprof/recorder/intern.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

uint64_t (*g_current_thread_id)() = nullptr;

struct AsyncSites {
  Site of[kNumRecordScopes];
};
constexpr AsyncSites make_async_sites() noexcept {
  AsyncSites sites{};
  for (size_t i = 0; i < kNumRecordScopes; ++i) {
    sites.of[i] = scope_sites[i];
    sites.of[i].kind = SiteKind::async_range;
  }
  return sites;
}
constexpr AsyncSites async_sites = make_async_sites();

// Those of the op, its stack, its modules, its inputs.
using Blocks = BlockWords<kOpBlockWords + 2 + 2 + 1 + kMaxInputWords>;

// Async ops, and every op while counters, native stacks, a slow clock or a thread block at no fixed
// offset need the long way.
FASTPROF_COLD OpenRange begin_slow_op(State* s, const Site** site, bool is_async,
                                      const Blocks& blocks) noexcept {
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, (*site)->mask)) return {};
  if (is_async)
    *site = intern_site(async_sites.of[static_cast<size_t>((*site)->scope)], (*site)->name);
  return begin_detailed(s, block, *site, nullptr, blocks.words + 1, blocks.count);
}

FASTPROF_ALWAYS_INLINE OpenRange begin_here(State* s, uint32_t mask, const Site* site,
                                            Blocks& blocks) noexcept {
  ThreadBlock* block = static_thread_block();
  if ((mask & site->mask) == 0 && (block->mask & site->mask) == 0) return {};
  const uint32_t units = blocks.finish();
  Slot* slot = reserve(s, block, 1 + units, site->mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return {};
  return {slot, write_op(slot, site, blocks.words, units)};
}

// libtorch's number of the forward thread as a track of ours; 0 for none, or not known yet.
FASTPROF_ALWAYS_INLINE uint64_t forward_track(ThreadOps* ops, uint64_t forward_thread) noexcept {
  if (forward_thread == 0) return 0;
  if (FASTPROF_UNLIKELY(ops->forward_thread != forward_thread)) {
    const uint32_t track = track_of(forward_thread);
    if (track == 0) return 0;
    ops->forward_track = track;
    ops->forward_thread = forward_thread;
  }
  return ops->forward_track;
}

// The op that encloses others must be one of libtorch's own, which lives on the C stack: a user's
// range is begun by one Python call and ended by another, and what called it may be gone meanwhile.
// Stacks grow downwards, so that what began before lies above.
FASTPROF_ALWAYS_INLINE uint64_t op_stack(ThreadOps* ops, const void* rf) noexcept {
  EnclosingStack& enclosing = ops->enclosing;
  if (enclosing.op != nullptr && std::less<const void*>()(enclosing.op, rf))
    enclosing.op = nullptr;  // its end came to another thread
  return load_relaxed(&g_capture_stack)(enclosing);
}

}  // namespace

std::unique_ptr<ObserverContextView> start_detailed_op(const RecordFunctionView& record_function,
                                                       State* s, ThreadOps* ops,
                                                       const OpName* name) noexcept {
  const void* rf = &record_function;
  const uint32_t mask = load_relaxed(&s->mask);
  const uint32_t wants = load_acquire(&g_op_view.wants);  // partner: want_with_ops
  if ((wants & op_extra::memory) != 0) report_from_thread();
  if (FASTPROF_UNLIKELY(ops == nullptr)) {
    ops = make_thread_ops();
    if (ops == nullptr) return nullptr;
  }
  if (FASTPROF_UNLIKELY((ops->flags & ops_flag::paused) != 0)) return nullptr;
  if (FASTPROF_UNLIKELY((mask & (mask_bit::local | mask_bit::dynamic)) != 0)) take_up_sessions(ops);
  if (FASTPROF_UNLIKELY(name == nullptr)) name = look_for_name(ops->names, record_function);
  if ((mask & (name->mask | mask_bit::special)) == 0) return nullptr;
  if (FASTPROF_UNLIKELY((ops->flags & ops_flag::unknown_track) != 0 &&
                        note_thread(g_current_thread_id())))
    ops->flags &= ~ops_flag::unknown_track;

  Blocks blocks;
  blocks.put_op(field<int64_t>(rf, g_op_view.sequence_nr),
                forward_track(ops, field<uint64_t>(rf, g_op_view.forward_thread_id)),
                field<uint64_t>(rf, g_op_view.handle));
  const uint64_t stack = (wants & op_extra::stack) != 0 ? op_stack(ops, rf) : 0;
  if (stack != 0) blocks.put(DetailType::python_stack, stack);
  const Site* site = name->site;
  // Not of backward functions, as in PyTorch: they run outside of the interpreter.
  if ((wants & op_extra::modules) != 0 && site->scope != RecordScope::BACKWARD_FUNCTION)
    if (const char* modules = current_modules())
      blocks.put(DetailType::modules, reinterpret_cast<uintptr_t>(modules));
  uint64_t* const room = blocks.room_for_inputs();
  uint32_t inputs = (wants & op_extra::inputs) != 0
                        ? load_relaxed(&g_op_view.encode_inputs)(rf, room, kMaxInputWords)
                        : 0;
  if (FASTPROF_UNLIKELY(name->collective))
    inputs = append_collective_metadata(record_function, room, inputs, kMaxInputWords);
  blocks.put_inputs(inputs);

  void* memory = take_context(ops);
  if (FASTPROF_UNLIKELY(memory == nullptr)) return nullptr;
  const bool is_async = field<uint8_t>(rf, g_op_view.is_async) != 0;
  const OpenRange open = FASTPROF_UNLIKELY((mask & kColdBits) != 0 || is_async)
                             ? begin_slow_op(s, &site, is_async, blocks)
                             : begin_here(s, mask, site, blocks);
  if (FASTPROF_UNLIKELY(open.slot == nullptr)) {
    OpContext::operator delete(memory);
    return nullptr;
  }
  auto* context = new (memory) OpContext(open, site, thread_block()->track->id);
  context->is_async = is_async;
  if (stack != 0 && ops->enclosing.op == nullptr && !is_async &&
      site->scope != RecordScope::USER_SCOPE) {
    ops->enclosing.op = rf;
    context->encloses = true;
  }
  return std::unique_ptr<ObserverContextView>(context);
}

void set_current_thread_id(uint64_t (*current_thread_id)()) noexcept {
  g_current_thread_id = current_thread_id;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
