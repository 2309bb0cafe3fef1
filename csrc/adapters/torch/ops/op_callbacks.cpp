// SPDX-License-Identifier: Apache-2.0
// The callbacks. Code that most ops execute is in this file, close together; the rest is called.
#include "adapters/torch/ops/op_callbacks.hpp"

#include "adapters/torch/debug_info/memory_reporter.hpp"
#include "adapters/torch/inputs/op_inputs.hpp"
#include "adapters/torch/ops/detailed_op.hpp"
#include "adapters/torch/ops/op_names.hpp"
#include "adapters/torch/ops/op_record.hpp"
#include "adapters/torch/ops/short_ops.hpp"
#include "adapters/torch/ops/slow_op.hpp"
#include "adapters/torch/ops/thread_ops.hpp"
#include "fastprof/recorder/hot_path/range.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Records an op on the calling thread: a slot and `units` units of `words`. Returns null, with
// nothing recorded, if the slow path is needed.
FASTPROF_ALWAYS_INLINE OpContext* begin_here(ThreadOps* ops, const OpName* name,
                                             const uint64_t* words, uint32_t units) noexcept {
  ContextMemory* memory = ops->free;
  if (FASTPROF_UNLIKELY(memory == nullptr)) return nullptr;
  ThreadBlock* block = static_thread_block();
  Slot* slot = reserve_here(block, 1 + units);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return nullptr;
  ops->free = memory->next;
  const uint64_t begin = write_op(slot, name->site, words, units);
  return new (memory) OpContext({slot, begin}, name->site, block->track->id);
}

// An op with a sequence number or ids; few have them.
FASTPROF_HOT FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_numbered_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops,
    const OpName* name) noexcept {
  const void* rf = &record_function;
  const auto forward_thread = field<uint64_t>(rf, g_op_view.forward_thread_id);
  OpContext* context = nullptr;
  if (FASTPROF_LIKELY(is_simple_op(ops, name, rf, forward_thread))) {
    uint64_t words[kOpBlockWords];
    BlockWords blocks(words);
    blocks.put_op(field<int64_t>(rf, g_op_view.sequence_nr), forward_track_of(ops, forward_thread),
                  field<uint64_t>(rf, g_op_view.handle));
    const uint32_t units = blocks.finish();
    context = begin_here(ops, name, words, units);
  }
  if (FASTPROF_UNLIKELY(context == nullptr)) return start_slow_op(record_function, s, ops, name);
  return std::unique_ptr<ObserverContextView>(context);
}

// An op while only memory reporting is enabled.
FASTPROF_HOT FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_reporting_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops,
    const OpName* name) noexcept {
  report_from_thread();
  return start_numbered_op(record_function, s, ops, name);
}

// An op with the details in OpView::wants, which is not 0.
FASTPROF_ALWAYS_INLINE std::unique_ptr<ObserverContextView> start_wanted_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops, const OpName* name,
    uint32_t wants) noexcept {
  if (wants == op_extra::memory) return start_reporting_op(record_function, s, ops, name);
  return start_detailed_op(record_function, s, ops, name, wants);
}

// An op whose name libtorch builds anew each time, as for backward functions, or that is not
// cached.
FASTPROF_HOT FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_named_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops) noexcept {
  const OpName* name = find_name(ops->names, record_function);
  if (FASTPROF_UNLIKELY(name == nullptr)) return start_slow_op(record_function, s, ops, nullptr);
  if (FASTPROF_UNLIKELY((load_relaxed(&s->mask) & name->mask) == 0)) return nullptr;
  const uint32_t wants = load_acquire(&g_op_view.wants);  // partner: want_with_ops
  if (wants != 0) return start_wanted_op(record_function, s, ops, name, wants);
  return start_numbered_op(record_function, s, ops, name);
}

FASTPROF_ALWAYS_INLINE uint32_t encode_known(const void* record_function, uint64_t* words,
                                             uint32_t capacity) noexcept {
  return encode_inputs(record_function, BuiltInSource{}, direct_memory, words, capacity);
}

// Arranged so that the common case falls through all branches: the branch predictor has lost them
// since the last op. Without inputs, the only call is a tail call, so few registers are saved. With
// inputs, all registers are needed anyway, so the remaining code is shared.
template <bool known_inputs>
FASTPROF_ALWAYS_INLINE std::unique_ptr<ObserverContextView> start_any_op(
    const RecordFunctionView& record_function) noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if (FASTPROF_UNLIKELY((mask & (category::op | category::user | mask_bit::special)) == 0))
    return nullptr;
  ThreadOps* ops = thread_ops_here();
  if (FASTPROF_UNLIKELY(ops == nullptr || ((mask & mask_bit::special) | ops->flags) != 0))
    return start_slow_op(record_function, s, ops, nullptr);
  if (known_inputs)  // fetched some ops ago, no longer in L1
    expect_lines(reinterpret_cast<const Slot*>(static_thread_block()->cursor), kDetailedLines);
  const OpName* name = find_operator(ops->names, record_function);
  if (FASTPROF_UNLIKELY(name == nullptr)) {
    if (!known_inputs) return start_named_op(record_function, s, ops);
    name = find_name(ops->names, record_function);
    if (FASTPROF_UNLIKELY(name == nullptr)) return start_slow_op(record_function, s, ops, nullptr);
  }
  if (FASTPROF_UNLIKELY((mask & name->mask) == 0)) return nullptr;
  const uint32_t wants = load_acquire(&g_op_view.wants);  // partner: want_with_ops
  if (known_inputs && FASTPROF_LIKELY(wants == op_extra::inputs))
    return start_op_wanting(op_extra::inputs, &encode_known, record_function, s, ops, name);
  if (FASTPROF_UNLIKELY(wants != 0)) return start_wanted_op(record_function, s, ops, name, wants);
  if (known_inputs) return start_numbered_op(record_function, s, ops, name);
  const void* rf = &record_function;
  // Combined into one condition, so that there is one branch to predict.
  const uint64_t has_sequence_nr = ~field<uint64_t>(rf, g_op_view.sequence_nr) >> 63;  // >= 0
  if (FASTPROF_UNLIKELY((has_sequence_nr | field<uint64_t>(rf, g_op_view.forward_thread_id) |
                         field<uint64_t>(rf, g_op_view.handle) |
                         field<uint8_t>(rf, g_op_view.is_async) |
                         static_cast<uint64_t>(name->collective)) != 0))
    return start_numbered_op(record_function, s, ops, name);
  OpContext* context = begin_here(ops, name, nullptr, 0);
  if (FASTPROF_UNLIKELY(context == nullptr)) return start_slow_op(record_function, s, ops, name);
  return std::unique_ptr<ObserverContextView>(context);
}

// Uncommon ends: enclosing ops with stacks, async ops, ends on another thread, late ends.
FASTPROF_HOT FASTPROF_NOINLINE void end_elsewhere(const RecordFunctionView& record_function,
                                                  const OpContext& context) noexcept {
  if (context.encloses != 0) {
    ThreadOps* ops = thread_ops();
    if (ops != nullptr && ops->enclosing.op == &record_function) ops->enclosing.op = nullptr;
  }
  if (context.is_async != 0) {
    const uint64_t begin = (context.begin >> 63) != 0 ? ~context.begin : context.begin;
    end_async(AsyncHandle{begin, context.site, context.track});
    return;
  }
  end_range(RangeHandle{context.slot, context.begin, context.site, context.track});
}

}  // namespace

FASTPROF_HOT OpContext::~OpContext() = default;

void prepare_callbacks(const Functions& functions, const Layout& layout) noexcept {
  set_current_thread_id(functions.current_thread_id);
  prepare_names(functions);
  g_op_view.name = layout.name;
  g_op_view.thread_ops = thread_ops_offset();
  g_op_view.scope = layout.scope;
  g_op_view.sequence_nr = layout.sequence_nr;
  g_op_view.forward_thread_id = layout.forward_thread_id;
  g_op_view.handle = layout.handle;
  g_op_view.is_async = layout.is_async;
}

std::unique_ptr<ObserverContextView> start_op(const RecordFunctionView& record_function) noexcept {
  return start_any_op<false>(record_function);
}

std::unique_ptr<ObserverContextView> start_op_with_known_inputs(
    const RecordFunctionView& record_function) noexcept {
  return start_any_op<true>(record_function);
}

void end_op(const RecordFunctionView& record_function,
            ObserverContextView* observer_context) noexcept {
  if (FASTPROF_UNLIKELY(observer_context == nullptr)) return;
  const auto& context = *static_cast<const OpContext*>(observer_context);
  if (FASTPROF_UNLIKELY(load_relaxed(&g_op_view.shortest_ticks) != 0) &&
      leave_out(record_function, context))
    return;
  const ThreadOps* ops = thread_ops_here();
  // Ended by the thread that began it. If ThreadOps have no fixed offset, this is unknown here.
  if (FASTPROF_LIKELY((context.is_async | context.encloses) == 0 && ops != nullptr &&
                      ContextMemory::of(&context)->home == ops->id)) {
    // As end_open(); uncommon cases are handled below.
    const uint64_t end = raw_ticks();
    if (FASTPROF_LIKELY(load_relaxed(&context.slot->begin) == context.begin)) {
      store_release(&context.slot->end, end);
      return;
    }
  }
  end_elsewhere(record_function, context);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
