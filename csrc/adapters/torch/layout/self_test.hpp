// SPDX-License-Identifier: Apache-2.0
// Verifies that a Layout matches the loaded libtorch, before any RecordFunction of the program is
// read with it.
#pragma once

#include "adapters/torch/layout/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Returns null if `layout` is correct, else what differs. Constructs RecordFunctions in its own
// oversized buffers, on a separate thread (so that no mode or callback of the user's thread
// applies), and compares what libtorch's functions write with the layout: size, scope, thread,
// sequence number, ids, async flag, and the observer context passed back. Reads no other memory.
// Not thread-safe.
const char* self_test(const Functions& functions, const Layout& layout) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
