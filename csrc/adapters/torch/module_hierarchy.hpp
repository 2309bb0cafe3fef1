// SPDX-License-Identifier: Apache-2.0
// The TorchScript modules that an op runs in, as libtorch's interpreter knows them. Eager modules
// are Python's, and none of its concern.
#pragma once

#include <string>

#include "fastprof/recorder/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// The interned text of what the calling thread's interpreter runs, outermost first, as Kineto's
// "Module Hierarchy" has it ("TOP(Model)::forward.layer(Linear)::forward."); null when it runs
// nothing. Only while op_extra::modules is wanted, or once it has been.
const char* current_modules() noexcept;

// Counted. Empty, or the reason why there is none; then nothing is to be stopped. Any thread.
std::string start_module_hierarchy();
void stop_module_hierarchy() noexcept;

// In a forked child: nobody wants it.
void forget_module_hierarchy_in_child() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
