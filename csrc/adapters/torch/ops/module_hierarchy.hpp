// SPDX-License-Identifier: Apache-2.0
// The TorchScript modules that an op runs in, as reported by libtorch's interpreter. Eager modules
// are recorded on the Python side.
#pragma once

#include <string>

#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Returns the interned module hierarchy that the calling thread's interpreter runs, outermost
// first, as in Kineto's "Module Hierarchy" ("TOP(Model)::forward.layer(Linear)::forward."); null if
// it runs nothing. Call only after op_extra::modules was set.
const char* current_modules() noexcept;

// start and stop are counted. start_module_hierarchy returns an empty string, or the reason why
// modules are unavailable; then do not call stop. Any thread.
std::string start_module_hierarchy();
void stop_module_hierarchy() noexcept;

// In a forked child: clears the count.
void forget_module_hierarchy_in_child() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
