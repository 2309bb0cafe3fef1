// SPDX-License-Identifier: Apache-2.0
// Begins an op with any combination of details: see detailed_op.hpp.
#include "adapters/torch/ops/detailed_op.hpp"

#include "adapters/torch/debug_info/memory_reporter.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

std::unique_ptr<ObserverContextView> start_detailed_op(const RecordFunctionView& record_function,
                                                       State* s, ThreadOps* ops, const OpName* name,
                                                       uint32_t wants) noexcept {
  if ((wants & op_extra::memory) != 0) report_from_thread();
  return start_op_wanting(wants, load_relaxed(&g_op_view.encode_inputs), record_function, s, ops,
                          name);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
