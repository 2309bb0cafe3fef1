// SPDX-License-Identifier: Apache-2.0
// Names of torch.nn.Module objects that are called: sites "nn.Module: Linear_0", numbered within
// the class in the order of first calls, as PyTorch does, and the path of modules around a call.
// Modules are not kept alive: entries are found by address and checked by a weak reference.
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "adapters/python/call_sites.hpp"
#include "adapters/python/gil_substitute.hpp"
#include "adapters/python/weak_reference.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

struct KnownModule {
  PyObject* reference = nullptr;  // weak reference to the module, owned
  const Site* site = nullptr;
  // The path of the call that was named last, and that of the modules around it.
  const char* outer = nullptr;
  const char* path = nullptr;
};

struct KnownModules {
  uint32_t users = 0;
  bool outdated = false;                               // clear before the next name
  uint64_t name_epoch = 0;                             // of the sites
  std::unordered_map<PyObject*, KnownModule> modules;  // by address
  std::unordered_map<std::string, uint32_t> count;     // modules named so far, by class
};

KnownModules& known_modules() {
  static auto* only = new KnownModules;
  return *only;
}
GilSubstitute g_names_lock;

void forget_all(KnownModules& all) {
  std::unordered_map<PyObject*, KnownModule> modules;
  modules.swap(all.modules);
  all.count.clear();
  for (const auto& [address, known] : modules) Py_DECREF(known.reference);
}

std::string class_of(PyObject* module) {
  std::string type = Py_TYPE(module)->tp_name;
  return type.erase(0, type.rfind('.') + 1);  // names of types made in C include their module
}

// Returns the entry of a module, creating it if necessary; null without memory. `use` must be in
// effect.
KnownModule* known_module(KnownModules& all, PyObject* module, NameUse& use) {
  const uint64_t epoch = load_relaxed(&state()->name_epoch);
  if (all.outdated || all.name_epoch != epoch) {
    all.outdated = false;
    all.name_epoch = epoch;
    forget_all(all);
  }
  const auto found = all.modules.find(module);
  if (found != all.modules.end() && refers_to(found->second.reference, module))
    return &found->second;
  const std::string type = class_of(module);
  PyObject* reference = PyWeakref_NewRef(module, nullptr);
  if (reference == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  KnownModule& known = all.modules[module];
  Py_XDECREF(known.reference);
  known = KnownModule{};
  known.reference = reference;
  known.site =
      session_site(use, module_call_site,
                   std::string(kModuleCallPrefix) + type + '_' + std::to_string(all.count[type]++));
  return &known;
}

}  // namespace

void use_module_names(bool on) noexcept {
  const HoldGilSubstitute hold(g_names_lock);
  KnownModules& all = known_modules();
  if (on && all.users++ == 0) all.outdated = true;
  if (!on && all.users != 0) --all.users;
}

const Site* site_of_module(PyObject* module) noexcept {
  const HoldGilSubstitute hold(g_names_lock);
  try {
    NameUse use;
    if (!use.begin(state())) return nullptr;
    const KnownModule* known = known_module(known_modules(), module, use);
    return known != nullptr ? known->site : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

ModuleNames names_of_module(PyObject* module, const char* outer) noexcept {
  const HoldGilSubstitute hold(g_names_lock);
  try {
    NameUse use;
    if (!use.begin(state())) return {};
    KnownModule* known = known_module(known_modules(), module, use);
    if (known == nullptr) return {};
    if (known->path == nullptr || known->outer != outer) {
      std::string text = outer != nullptr ? std::string(outer) + '.' : std::string();
      const std::string_view name = known->site->name;
      // Without the prefix, which "<too many names>" does not have.
      text += name.substr(known->site == &module_call_site ? 0 : kModuleCallPrefix.size());
      known->path = intern_string(text);
      known->outer = outer;
    }
    return {known->site, known->path};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
