// SPDX-License-Identifier: Apache-2.0
// The callbacks that libtorch runs around every op while ops are observed: start_op() begins a
// range in the recorder, end_op() ends it. Both noexcept, on whatever thread the op runs.
#pragma once

#include "adapters/torch/op_view.hpp"
#include "adapters/torch/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Before either runs: what they read of libtorch. `layout` is proven.
void prepare_callbacks(const Functions& functions, const Layout& layout) noexcept;

// Both do the same; the second is laid out for who wants inputs and nothing else, and only for
// those of KnownSource.
FASTPROF_HOT std::unique_ptr<ObserverContextView> start_op(
    const RecordFunctionView& record_function) noexcept;
FASTPROF_HOT std::unique_ptr<ObserverContextView> start_op_with_known_inputs(
    const RecordFunctionView& record_function) noexcept;
FASTPROF_HOT void end_op(const RecordFunctionView& record_function,
                         ObserverContextView* context) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
