// SPDX-License-Identifier: Apache-2.0
// The table of input layouts: see input_layout.hpp.
#include "adapters/torch/input_layout.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

const InputLayout* find_input_layout(std::string_view version) noexcept {
  // A line is added when tests/python/integration/test_torch_inputs.py has passed on that version.
  if (version.substr(0, 5) == "2.13.") return &kInputLayout_2_13;
  return nullptr;
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
