// SPDX-License-Identifier: Apache-2.0
// Sites of torch.nn.Module objects that are called: "nn.Module: Linear_0", numbered within the
// class in the order of first calls, as PyTorch does. Modules are not kept alive.
#include <new>
#include <string>
#include <unordered_map>

#include "adapters/python/call_sites.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

struct KnownModule {
  PyObject* reference;  // weak reference to the module, owned
  const Site* site;
};

struct KnownModules {
  uint64_t generation = 0;
  std::unordered_map<PyObject*, KnownModule> modules;  // by address
  std::unordered_map<std::string, uint32_t> count;     // of a class's modules
};

KnownModules& known_modules() {
  static auto* only = new KnownModules;
  return *only;
}

bool refers_to(PyObject* reference, PyObject* object) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* target = nullptr;
  if (PyWeakref_GetRef(reference, &target) < 0) PyErr_Clear();
  const bool same = target == object;
  Py_XDECREF(target);
  return same;
#else
  return PyWeakref_GetObject(reference) == object;
#endif
}

void forget_all(KnownModules& all) {
  std::unordered_map<PyObject*, KnownModule> modules;
  modules.swap(all.modules);
  all.count.clear();
  for (const auto& [address, known] : modules) Py_DECREF(known.reference);
}

const Site* make_module_site(KnownModules& all, PyObject* module) {
  std::string type = Py_TYPE(module)->tp_name;
  type.erase(0, type.rfind('.') + 1);  // types made in C have their module in it
  PyObject* reference = PyWeakref_NewRef(module, nullptr);
  if (reference == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  NameUse use;
  const std::string text = "nn.Module: " + type + '_' + std::to_string(all.count[type]++);
  const Site* site = session_site(use, python_call_site, text);
  KnownModule& known = all.modules[module];
  Py_XDECREF(known.reference);
  known = {reference, site};
  return site;
}

}  // namespace

const Site* site_of_module(PyObject* module) noexcept {
  KnownModules& all = known_modules();
  try {
    if (all.generation != g_call_generation) {
      forget_all(all);
      all.generation = g_call_generation;
    }
    const auto found = all.modules.find(module);
    if (found != all.modules.end() && refers_to(found->second.reference, module))
      return found->second.site;
    return make_module_site(all, module);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
