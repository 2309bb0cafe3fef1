// SPDX-License-Identifier: Apache-2.0
// Begins an op with details: inputs, Python stack, modules.
#pragma once

#include <functional>

#include "adapters/torch/ops/module_hierarchy.hpp"
#include "adapters/torch/ops/op_names.hpp"
#include "adapters/torch/ops/op_record.hpp"
#include "adapters/torch/ops/slow_op.hpp"
#include "adapters/torch/ops/thread_ops.hpp"
#include "fastprof/recorder/hot_path/record.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Begins an op with the details in `wants` (op_extra). Returns null if it is not recorded.
FASTPROF_HOT FASTPROF_NOINLINE std::unique_ptr<ObserverContextView> start_detailed_op(
    const RecordFunctionView& record_function, State* s, ThreadOps* ops, const OpName* name,
    uint32_t wants) noexcept;

// Python stack id and modules of an op; 0 if not requested or none.
struct OpOrigin {
  uint64_t stack = 0;
  uint64_t modules = 0;
};

// Captures stack and modules. Only one of libtorch's own ops, which lives on the C stack, can
// enclose others: a user range is begun by one Python call and ended by another, and its caller may
// have returned. Stacks grow downwards, so an enclosing op has a higher address.
FASTPROF_ALWAYS_INLINE OpOrigin origin_of(ThreadOps* ops, const void* rf, uint32_t wants,
                                          RecordScope scope) noexcept {
  OpOrigin origin;
  if ((wants & op_extra::stack) != 0) {
    EnclosingStack& enclosing = ops->enclosing;
    if (enclosing.op != nullptr && std::less<const void*>()(enclosing.op, rf))
      enclosing.op = nullptr;  // it ended on another thread
    origin.stack = load_relaxed(&g_capture_stack)(enclosing);
  }
  // Not for backward functions, as in PyTorch: they run outside the interpreter.
  if ((wants & op_extra::modules) != 0 && scope != RecordScope::BACKWARD_FUNCTION)
    origin.modules = reinterpret_cast<uintptr_t>(current_modules());
  return origin;
}

FASTPROF_ALWAYS_INLINE void put_origin(BlockWords& blocks, const OpOrigin& origin) noexcept {
  if (origin.stack != 0) blocks.put(DetailType::python_stack, origin.stack);
  if (origin.modules != 0) blocks.put(DetailType::modules, origin.modules);
}

// Makes an op the enclosing op of its thread, if there is none.
FASTPROF_ALWAYS_INLINE void enclose(ThreadOps* ops, OpContext* context, const void* rf,
                                    const OpOrigin& origin) noexcept {
  if (origin.stack == 0 || ops->enclosing.op != nullptr || context->is_async != 0 ||
      context->site->scope == RecordScope::USER_SCOPE)
    return;
  ops->enclosing.op = rf;
  context->encloses = true;
}

// Units reserved for an op before its size is known, because inputs are encoded in place. Ops that
// need more take the slow path.
constexpr uint32_t kRoomUnits = 48;
constexpr uint32_t kRoomForInputs = 3 * (kRoomUnits - 1) - kOpBlockWords;
// Cache lines that most of these ops use.
constexpr int kDetailedLines = 3;

// As start_detailed_op; `encode` as EncodeInputs. If `wants` is a constant, the compiler removes
// the unused branches.
template <class Encode>
FASTPROF_ALWAYS_INLINE std::unique_ptr<ObserverContextView> start_op_wanting(
    uint32_t wants, Encode encode, const RecordFunctionView& record_function, State* s,
    ThreadOps* ops, const OpName* name) noexcept {
  const void* rf = &record_function;
  const auto forward_thread = field<uint64_t>(rf, g_op_view.forward_thread_id);
  ContextMemory* memory = ops->free;
  if (FASTPROF_UNLIKELY(!is_simple_op(ops, name, rf, forward_thread) | (memory == nullptr)))
    return start_slow_op(record_function, s, ops, name);
  const OpOrigin origin = origin_of(ops, rf, wants, static_cast<RecordScope>(name->scope));

  ThreadBlock* block = static_thread_block();
  Slot* slot = reserve(s, block, kRoomUnits, name->mask);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return nullptr;
  expect_records(slot + kRoomUnits, kDetailedLines);
  BlockWords blocks(reinterpret_cast<uint64_t*>(slot + 1));
  blocks.put_op(field<int64_t>(rf, g_op_view.sequence_nr), forward_track_of(ops, forward_thread),
                field<uint64_t>(rf, g_op_view.handle));
  put_origin(blocks, origin);
  if ((wants & op_extra::inputs) != 0) {
    uint32_t used = encode(rf, blocks.room_for_inputs(), kRoomForInputs);
    if (FASTPROF_UNLIKELY((used & kInputsLeftOut) != 0)) {
      if (give_units_back(block, slot, kRoomUnits, 0))
        return start_slow_op(record_function, s, ops, name);
      used &= ~kInputsLeftOut;
    }
    blocks.put_inputs(used);
  }
  const uint32_t units = blocks.finish();
  if (FASTPROF_UNLIKELY(!give_units_back(block, slot, kRoomUnits, 1 + units)))
    blocks.pad_to(kRoomUnits - 1);
  const uint64_t begin = stamp_op(slot, name->site, units);

  ops->free = memory->next;
  auto* context = new (memory) OpContext({slot, begin}, name->site, block->track->id);
  enclose(ops, context, rf, origin);
  return std::unique_ptr<ObserverContextView>(context);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
