// SPDX-License-Identifier: Apache-2.0
// Proof that a Layout is that of the loaded libtorch, before any RecordFunction of the program is
// read through it.
#pragma once

#include "adapters/torch/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Null when `layout` holds, else what does not. Makes RecordFunctions in memory of its own, larger
// than any, on a thread of its own (no user's mode or callback of the thread is met), and compares
// what libtorch's functions write there with where the layout says it is: size, scope, thread,
// sequence number, ids, async, and a context's way back. Nothing else is read. Not for several
// threads at once.
const char* self_test(const Functions& functions, const Layout& layout) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
