// SPDX-License-Identifier: Apache-2.0
// The begin of an op with details: see detailed_op.hpp.
#include "adapters/torch/detailed_op.hpp"

#include "adapters/torch/input_proof.hpp"
#include "adapters/torch/memory_reporter.hpp"
#include "adapters/torch/slow_op.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// What is reserved for an op, before anybody knows how much it needs: inputs are written where they
// stay. Ops that need more are begun the slow way.
constexpr uint32_t kRoomUnits = 48;
constexpr uint32_t kRoomForInputs = 3 * (kRoomUnits - 1) - kOpBlockWords;

uint32_t encode(const void* rf, uint64_t* words, uint32_t capacity) noexcept {
  const EncodeInputs trusted = load_relaxed(&g_op_view.encode_inputs);
  return FASTPROF_LIKELY(trusted == &encode_2_13) ? encode_2_13(rf, words, capacity)
                                                  : trusted(rf, words, capacity);
}

// Where `wants` is a constant, the compiler drops what is not wanted.
FASTPROF_ALWAYS_INLINE std::unique_ptr<ObserverContextView> start_op_wanting(
    uint32_t wants, const RecordFunctionView& record_function, State* s, ThreadOps* ops,
    const OpName* name) noexcept {
  const void* rf = &record_function;
  const auto forward_thread = field<uint64_t>(rf, g_op_view.forward_thread_id);
  ContextMemory* memory = ops->free;
  if (FASTPROF_UNLIKELY(!is_simple_op(ops, name, rf, forward_thread) | (memory == nullptr)))
    return start_slow_op(record_function, s, ops, name);
  if ((wants & op_extra::memory) != 0) report_from_thread();
  const OpOrigin origin = origin_of(ops, rf, wants, static_cast<RecordScope>(name->scope));

  ThreadBlock* block = static_thread_block();
  Slot* slot = reserve_here(block, kRoomUnits);
  if (FASTPROF_UNLIKELY(slot == nullptr)) return start_slow_op(record_function, s, ops, name);
  expect_record(slot + kRoomUnits);
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

}  // namespace

std::unique_ptr<ObserverContextView> start_op_with_inputs(const RecordFunctionView& record_function,
                                                          State* s, ThreadOps* ops,
                                                          const OpName* name) noexcept {
  return start_op_wanting(op_extra::inputs, record_function, s, ops, name);
}

std::unique_ptr<ObserverContextView> start_detailed_op(const RecordFunctionView& record_function,
                                                       State* s, ThreadOps* ops, const OpName* name,
                                                       uint32_t wants) noexcept {
  return start_op_wanting(wants, record_function, s, ops, name);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
