// SPDX-License-Identifier: Apache-2.0
// Ops below a duration: see short_ops.hpp.
#include "adapters/torch/ops/short_ops.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "adapters/torch/layout/op_view.hpp"
#include "fastprof/leader/attach.hpp"
#include "fastprof/recorder/hot_path/record.hpp"
#include "fastprof/session/clock_line.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

constexpr uint32_t kCountedAtOnce = 64;
std::atomic<uint64_t> g_left_out{0};
std::atomic<uint64_t> g_shortest_ns{0};

}  // namespace

bool leave_out_ops_below(uint64_t shortest_ns) noexcept {
  if (state()->slow_clock != 0) shortest_ns = 0;
  uint64_t ticks = 0;
  if (shortest_ns != 0) {
    const ClockReading before = read_host_clocks();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ticks = static_cast<uint64_t>(static_cast<double>(shortest_ns) *
                                  ticks_per_ns(before, read_host_clocks()));
  }
  g_shortest_ns.store(shortest_ns, std::memory_order_relaxed);
  store_relaxed(&g_op_view.shortest_ticks, ticks);
  return state()->slow_clock == 0;
}

uint64_t shortest_op_ns() noexcept {
  return g_shortest_ns.load(std::memory_order_relaxed);
}

uint64_t ops_left_out() noexcept {
  return g_left_out.load(std::memory_order_relaxed);
}

void add_left_out(ThreadOps* ops) noexcept {
  g_left_out.fetch_add(ops->left_out, std::memory_order_relaxed);
  ops->left_out = 0;
}

bool leave_out(const RecordFunctionView& record_function, const OpContext& context) noexcept {
  ThreadOps* ops = thread_ops();
  // `begin` is inverted if the clock is not the tick counter. Ranges of torch's record_function
  // stay.
  if (context.is_async != 0 || (context.begin >> 63) != 0 || ops == nullptr ||
      ContextMemory::of(&context)->home != ops->id || (context.site->mask & category::op) == 0)
    return false;
  Slot* const slot = context.slot;
  if (raw_ticks() - context.begin >= load_relaxed(&g_op_view.shortest_ticks) ||
      load_relaxed(&slot->begin) != context.begin)
    return false;
  ThreadBlock* block = thread_block();
  if (load_relaxed(&block->cursor) != reinterpret_cast<uintptr_t>(slot + record_units(slot)) ||
      load_relaxed(&chunk_of(slot)->pins) != 0)
    return false;
  // A signal handler that records between the check and here loses its record, as in
  // give_units_back(). Readers of other processes: copy_backing_file.hpp cuts where a begin
  // changes.
  move_cursor(block, reinterpret_cast<uintptr_t>(slot));
  if (context.encloses != 0 && ops->enclosing.op == &record_function) ops->enclosing.op = nullptr;
  if (++ops->left_out == kCountedAtOnce) add_left_out(ops);
  return true;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
