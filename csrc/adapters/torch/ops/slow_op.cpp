// SPDX-License-Identifier: Apache-2.0
// Slow path to begin an op: see slow_op.hpp.
#include "adapters/torch/ops/slow_op.hpp"

#include "adapters/torch/debug_info/memory_reporter.hpp"
#include "adapters/torch/inputs/op_inputs.hpp"
#include "adapters/torch/ops/collective_metadata.hpp"
#include "adapters/torch/ops/detailed_op.hpp"
#include "adapters/torch/ops/thread_numbers.hpp"
#include "adapters/torch/ops/torch_propagation.hpp"
#include "fastprof/primitives/scope_site.hpp"
#include "fastprof/recorder/hot_path/detailed_range.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

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

// Used for async ops, and for all ops while counters, native stacks, a slow clock or a thread block
// at no fixed offset require it.
FASTPROF_COLD OpenRange begin_anywhere(State* s, NameUse& use, const Site** site, bool is_async,
                                       const BlockWords& blocks) noexcept {
  ThreadBlock* block = thread_block();
  if (!wanted(s, block, (*site)->mask)) return {};
  if (is_async)
    *site = session_site(use, async_sites.of[static_cast<size_t>((*site)->scope)], (*site)->name);
  return begin_detailed(s, block, *site, nullptr, blocks.words() + 1, blocks.count());
}

OpenRange begin_here(State* s, uint32_t mask, const Site* site, BlockWords& blocks) noexcept {
  ThreadBlock* block = static_thread_block();
  if ((mask & site->mask) == 0 && (block->mask & site->mask) == 0) return {};
  const uint32_t units = blocks.finish();
  Slot* slot = reserve(s, block, 1 + units, site->mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return {};
  return {slot, write_op(slot, site, blocks.words(), units)};
}

// Maps libtorch's id of the forward thread to a track id; 0 if there is none or it is not known
// yet.
uint64_t forward_track(ThreadOps* ops, uint64_t forward_thread) noexcept {
  if (forward_thread == 0) return 0;
  if (FASTPROF_UNLIKELY(ops->forward_thread != forward_thread)) {
    const uint32_t track = track_of(forward_thread);
    if (track == 0) return 0;
    ops->forward_track = track;
    ops->forward_thread = forward_thread;
  }
  return ops->forward_track;
}

}  // namespace

std::unique_ptr<ObserverContextView> start_slow_op(const RecordFunctionView& record_function,
                                                   State* s, ThreadOps* ops,
                                                   const OpName* name) noexcept {
  const void* rf = &record_function;
  static_assert(kOpBlockWords + kMaxInputWords <= kMaxBlockWords, "the limit of begin_detailed()");
  const uint32_t mask = load_relaxed(&s->mask);
  const uint32_t wants = load_acquire(&g_op_view.wants);  // partner: want_with_ops
  if ((wants & op_extra::memory) != 0) report_from_thread();
  if (FASTPROF_UNLIKELY(ops == nullptr)) {
    ops = thread_ops();
    if (ops == nullptr) ops = make_thread_ops();
    if (ops == nullptr) return nullptr;
  }
  if (FASTPROF_UNLIKELY((ops->flags & ops_flag::paused) != 0)) {
    ops->paused_handle = field<uint64_t>(rf, g_op_view.handle);
    return nullptr;
  }
  if (FASTPROF_UNLIKELY((mask & (mask_bit::local | mask_bit::dynamic)) != 0)) take_up_sessions(ops);
  NameUse use;
  if (FASTPROF_UNLIKELY(name == nullptr)) name = find_name(ops->names, record_function);
  if (FASTPROF_UNLIKELY(name == nullptr)) {
    if ((mask & (category::user | mask_bit::special)) == 0) return nullptr;
    name = name_user_range(use, ops->names, record_function);
  }
  if ((mask & (name->mask | mask_bit::special)) == 0) return nullptr;
  if (FASTPROF_UNLIKELY((ops->flags & ops_flag::unknown_track) != 0 &&
                        note_thread(g_current_thread_id())))
    ops->flags &= ~ops_flag::unknown_track;

  const Site* site = name->site;
  uint64_t words[kOpBlockWords + kMaxInputWords];
  BlockWords blocks(words);
  blocks.put_op(field<int64_t>(rf, g_op_view.sequence_nr),
                forward_track(ops, field<uint64_t>(rf, g_op_view.forward_thread_id)),
                field<uint64_t>(rf, g_op_view.handle));
  const OpOrigin origin = origin_of(ops, rf, wants, site->scope);
  put_origin(blocks, origin);
  uint64_t* const room = blocks.room_for_inputs();
  uint32_t inputs = 0;
  if ((wants & op_extra::inputs) != 0)
    inputs = load_relaxed(&g_op_view.encode_inputs)(rf, room, kMaxInputWords) & ~kInputsLeftOut;
  if (FASTPROF_UNLIKELY(name->collective))
    inputs = append_collective_metadata(record_function, room, inputs, kMaxInputWords);
  blocks.put_inputs(inputs);

  ContextMemory* memory = take_context_memory(ops);
  if (FASTPROF_UNLIKELY(memory == nullptr)) return nullptr;
  const bool is_async = field<uint8_t>(rf, g_op_view.is_async) != 0;
  const OpenRange open = FASTPROF_UNLIKELY((mask & kColdBits) != 0 || is_async)
                             ? begin_anywhere(s, use, &site, is_async, blocks)
                             : begin_here(s, mask, site, blocks);
  if (FASTPROF_UNLIKELY(open.slot == nullptr)) {
    give_context_memory(memory);
    return nullptr;
  }
  auto* context = new (memory) OpContext(open, site, thread_block()->track->id);
  context->is_async = is_async;
  enclose(ops, context, rf, origin);
  return std::unique_ptr<ObserverContextView>(context);
}

void set_current_thread_id(uint64_t (*current_thread_id)()) noexcept {
  g_current_thread_id = current_thread_id;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
