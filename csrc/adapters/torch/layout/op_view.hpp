// SPDX-License-Identifier: Apache-2.0
// OpView: the process-wide data that the callback of every op reads, in one cache line. The
// callback runs between large amounts of libtorch's work, so each line it touches is likely a cache
// miss.
#pragma once

#include <cstdint>

#include "adapters/torch/layout/record_function_layout.hpp"
#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Optional data to record with ops: bits of OpView::wants.
namespace op_extra {
constexpr uint32_t inputs = 1;
constexpr uint32_t stack = 2;
constexpr uint32_t modules = 4;
constexpr uint32_t memory = 8;  // threads report allocations
}  // namespace op_extra

constexpr uint32_t kInputsLeftOut = 1u << 31;
// Encodes the contents of a DetailType::op_inputs block for a RecordFunction in its start callback.
// Returns the words used, at most `capacity`, with kInputsLeftOut set if something did not fit; 0:
// no inputs.
using EncodeInputs = uint32_t (*)(const void* record_function, uint64_t* words,
                                  uint32_t capacity) noexcept;

// Layout offsets and settings that the op callback reads.
struct alignas(64) OpView {
  // Set once by prepare() of op_observer.hpp, before any callback is registered. Offsets as in
  // Layout.
  intptr_t thread_ops = 0;  // offset of t_ops from the thread pointer; 0: not fixed
  uint32_t name = 0;        // 0: query libtorch
  uint32_t scope = 0;
  uint32_t sequence_nr = 0;
  uint32_t forward_thread_id = 0;
  uint32_t handle = 0;
  uint32_t is_async = 0;
  EncodeInputs encode_inputs = nullptr;  // null until inputs are first requested
  uintptr_t undefined_tensor = 0;        // its address; set before inputs are read
  uint32_t wants = 0;           // op_extra bits; whatever a bit needs is set before the bit
  uint64_t shortest_ticks = 0;  // ops that take less are left out (short_ops.hpp); 0: none
};
static_assert(sizeof(OpView) == 64, "one cache line");
extern OpView g_op_view;

// Sets or clears bits of OpView::wants. Each bit has one owner, which serialises the calls. Any
// thread. Release; partner: the acquire loads of OpView::wants.
inline void want_with_ops(uint32_t extra, bool wanted) noexcept {
  if (wanted)
    __atomic_fetch_or(&g_op_view.wants, extra, __ATOMIC_RELEASE);
  else
    __atomic_fetch_and(&g_op_view.wants, ~extra, __ATOMIC_RELEASE);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
