// SPDX-License-Identifier: Apache-2.0
// What the callback of every op reads of the process, in one cache line: it runs now and then amid
// much work of libtorch's, so that each line it touches is likely to have gone meanwhile.
#pragma once

#include <cstdint>

#include "adapters/torch/record_function_layout.hpp"
#include "fastprof/recorder/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// What somebody wants with the ops beside their names and times: bits of OpView::wants.
namespace op_extra {
constexpr uint32_t inputs = 1;
constexpr uint32_t stack = 2;
constexpr uint32_t modules = 4;
constexpr uint32_t memory = 8;  // threads are to report allocations
}  // namespace op_extra

constexpr uint32_t kInputsLeftOut = 1u << 31;
// Writes a DetailType::shapes block's contents for a RecordFunction in its start callback; the
// words used, at most `capacity`, with kInputsLeftOut where something did not fit. 0: no inputs.
using EncodeInputs = uint32_t (*)(const void* record_function, uint64_t* words,
                                  uint32_t capacity) noexcept;

struct alignas(64) OpView {
  // Set once by prepare() of op_observer.hpp, before any callback exists. Offsets as in Layout.
  intptr_t thread_ops = 0;  // offset of t_ops from the thread pointer; 0: it is at no fixed one
  uint32_t name = 0;        // 0: libtorch is asked
  uint32_t scope = 0;
  uint32_t sequence_nr = 0;
  uint32_t forward_thread_id = 0;
  uint32_t handle = 0;
  uint32_t is_async = 0;
  EncodeInputs encode_inputs = nullptr;  // null until they were wanted
  uintptr_t undefined_tensor = 0;        // its address, from when inputs may be read
  uint32_t wants = 0;                    // op_extra: what serves a bit is in place before it is set
};
static_assert(sizeof(OpView) == 64, "one cache line");
extern OpView g_op_view;

// Each bit has one owner, who serialises. Any thread.
inline void want_with_ops(uint32_t extra, bool wanted) noexcept {
  if (wanted)
    __atomic_fetch_or(&g_op_view.wants, extra, __ATOMIC_RELEASE);
  else
    __atomic_fetch_and(&g_op_view.wants, ~extra, __ATOMIC_RELEASE);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
