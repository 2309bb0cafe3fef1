// SPDX-License-Identifier: Apache-2.0
// The callbacks that libtorch runs around every op while ops are observed: start_op() begins a
// range, end_op() ends it. Both noexcept, on the thread that runs the op.
#pragma once

#include "adapters/torch/layout/op_view.hpp"
#include "adapters/torch/layout/record_function_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Sets the data that the callbacks read. Call before registering them. `layout` must be verified.
void prepare_callbacks(const Functions& functions, const Layout& layout) noexcept;

// Both have the same result. The second is optimised for profiles that record inputs and nothing
// else, and valid only with the layout of BuiltInSource.
FASTPROF_HOT std::unique_ptr<ObserverContextView> start_op(
    const RecordFunctionView& record_function) noexcept;
FASTPROF_HOT std::unique_ptr<ObserverContextView> start_op_with_known_inputs(
    const RecordFunctionView& record_function) noexcept;
FASTPROF_HOT void end_op(const RecordFunctionView& record_function,
                         ObserverContextView* context) noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
