// SPDX-License-Identifier: Apache-2.0
// Calls torch::jit::currentModuleHierarchy and interns the joined result: see module_hierarchy.hpp.
#include "adapters/torch/ops/module_hierarchy.hpp"

#include <mutex>
#include <vector>

#include "adapters/torch/layout/loaded_library.hpp"
#include "adapters/torch/layout/op_view.hpp"
#include "adapters/torch/layout/symbol_names.hpp"
#include "fastprof/base/child_handler.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

namespace {

// Of a libtorch with libstdc++'s older string ABI, whose strings this library cannot read.
constexpr const char* kOlderSymbol = "_ZN5torch3jit22currentModuleHierarchyEv";

// Set once, before op_extra::modules is first set.
std::vector<std::string> (*g_current)() = nullptr;

struct Users {
  std::mutex lock;
  uint64_t count = 0;
};
Users& users() noexcept {
  static Users& all = *new Users;
  return all;
}

}  // namespace

const char* current_modules() noexcept {
  try {
    std::vector<std::string> modules;
    if (g_current != nullptr) modules = g_current();
    if (modules.empty()) {
      const EagerModules eager = load_relaxed(&g_eager_modules);
      return eager != nullptr ? eager() : nullptr;
    }
    std::string text;
    for (const std::string& module : modules) text += module + '.';
    return intern_string(text);
  } catch (...) {
    return nullptr;
  }
}

std::string start_module_hierarchy() {
  Users& all = users();
  const std::lock_guard<std::mutex> hold(all.lock);
  std::string reason;
  if (g_current == nullptr) {
    const char* why = nullptr;
    void* library = loaded_libtorch(&why);
    if (library == nullptr)
      reason = why;
    else if (!find_function(library, kSymbolNames.module_hierarchy, g_current) &&
             find_symbol(library, kOlderSymbol) != nullptr)
      reason = "this libtorch has libstdc++'s older string ABI. Install torch 2.7 or newer.";
    else if (g_current == nullptr)
      reason =
          "this libtorch does not export the interpreter's current module. Install an official "
          "build of torch.";
  }
  ++all.count;
  want_with_ops(op_extra::modules, true);
  return reason;
}

void stop_module_hierarchy() noexcept {
  Users& all = users();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (all.count == 0 || --all.count != 0) return;
  want_with_ops(op_extra::modules, false);
}

void forget_module_hierarchy_in_child() noexcept {
  Users& all = users();
  renew_lock(all.lock);  // another thread of the parent may have held it
  all.count = 0;
  want_with_ops(op_extra::modules, false);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
