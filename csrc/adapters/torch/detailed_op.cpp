// SPDX-License-Identifier: Apache-2.0
// The begin of an op with details: see detailed_op.hpp.
#include "adapters/torch/detailed_op.hpp"

#include "adapters/torch/memory_reporter.hpp"
#include "adapters/torch/slow_op.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// What is reserved for an op, before anybody knows how much it needs: inputs are written where they
// stay. Ops that need more are begun the slow way.
constexpr uint32_t kRoomUnits = 48;
constexpr uint32_t kRoomForInputs = 3 * (kRoomUnits - 1) - kOpBlockWords;

}  // namespace

std::unique_ptr<ObserverContextView> start_detailed_op(const RecordFunctionView& record_function,
                                                       State* s, ThreadOps* ops,
                                                       const OpName* name) noexcept {
  const void* rf = &record_function;
  const auto forward_thread = field<uint64_t>(rf, g_op_view.forward_thread_id);
  const bool known = forward_thread == 0 || forward_thread == ops->forward_thread;
  ContextMemory* memory = ops->free;
  if (FASTPROF_UNLIKELY((field<uint8_t>(rf, g_op_view.is_async) | name->collective) != 0 ||
                        !known || memory == nullptr))
    return start_slow_op(record_function, s, ops, name);
  const uint32_t wants = load_acquire(&g_op_view.wants);  // partner: want_with_ops
  if ((wants & op_extra::memory) != 0) report_from_thread();
  const OpOrigin origin = origin_of(ops, rf, wants, static_cast<RecordScope>(name->scope));

  ThreadBlock* block = static_thread_block();
  Slot* slot = reserve_here(block, kRoomUnits);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return start_slow_op(record_function, s, ops, name);
  expect_record(slot + kRoomUnits);
  BlockWords blocks(reinterpret_cast<uint64_t*>(slot + 1));
  blocks.put_op(field<int64_t>(rf, g_op_view.sequence_nr),
                forward_thread == 0 ? 0 : ops->forward_track,
                field<uint64_t>(rf, g_op_view.handle));
  put_origin(blocks, origin);
  if ((wants & op_extra::inputs) != 0) {
    uint32_t used =
        load_relaxed(&g_op_view.encode_inputs)(rf, blocks.room_for_inputs(), kRoomForInputs);
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
