// SPDX-License-Identifier: Apache-2.0
// Module path of an op: the TorchScript modules that libtorch's interpreter is running, or else the
// eager modules whose calls (torch.nn.Module.__call__) are in progress.
#pragma once

#include <string>

#include "fastprof/recorder/state/slot.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Returns the interned module hierarchy that the calling thread's interpreter runs, outermost
// first, as in Kineto's "Module Hierarchy" ("TOP(Model)::forward.layer(Linear)::forward."). If it
// runs nothing, that of eager modules ("Model_0.Linear_1"); null for neither. Call only after
// op_extra::modules was set.
const char* current_modules() noexcept;

// The eager modules of the calling thread: a text that lives as long as the process, null for none.
// Null until the bindings, which know Python, set it.
using EagerModules = const char* (*)() noexcept;
inline EagerModules g_eager_modules = nullptr;

// start and stop are counted; call stop whatever start returns. start_module_hierarchy returns an
// empty string, or the reason why TorchScript modules are unavailable. Any thread.
std::string start_module_hierarchy();
void stop_module_hierarchy() noexcept;

// In a forked child: clears the count.
void forget_module_hierarchy_in_child() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
