// SPDX-License-Identifier: Apache-2.0
// Sites of functions written in C, one per PyMethodDef. The name is the one that PyTorch gives such
// calls, without the address of the object, so that one function has one name. Site::function is
// the name that cProfile prints (Modules/_lsprof.c, normalizeUserObj).
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "adapters/python/call_sites.hpp"
#include "adapters/python/gil_substitute.hpp"
#include "adapters/python/name_bytes.hpp"
#include "adapters/python/stack_in_use.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/state/make_site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

GilSubstitute g_functions_lock;

// Entries and their sites are never freed; there is one per function in C that was called.
std::unordered_map<const PyMethodDef*, KnownFunction>& known_functions() {
  static auto* only = new std::unordered_map<const PyMethodDef*, KnownFunction>;
  return *only;
}

// Returns the name of the module in PyCFunctionObject::m_module; empty if it has none.
std::string module_name(const CFunction& function) {
  PyObject* module = function.module;
  PyObject* name = nullptr;
  if (module != nullptr && PyUnicode_Check(module)) {
    Py_INCREF(module);
    name = module;
  } else if (module != nullptr && PyModule_Check(module)) {
    name = PyModule_GetNameObject(module);
  }
  std::string storage, text;
  std::string_view bytes;
  if (name != nullptr && name_bytes(name, storage, bytes)) text = bytes;
  PyErr_Clear();
  Py_XDECREF(name);
  return text;
}

// Returns repr() of the attribute `method` of the object's type; empty if there is none, or if its
// repr() could run foreign code.
std::string repr_in_type(PyObject* self, const char* method) {
  PyObject* name = PyUnicode_FromString(method);
  PyObject* found = name == nullptr ? nullptr : _PyType_Lookup(Py_TYPE(self), name);
  // Only a method descriptor's repr() is certain to run no foreign code.
  PyObject* repr = found != nullptr && (Py_IS_TYPE(found, &PyMethodDescr_Type) ||
                                        Py_IS_TYPE(found, &PyWrapperDescr_Type))
                       ? PyObject_Repr(found)
                       : nullptr;
  std::string storage, text;
  std::string_view bytes;
  if (repr != nullptr && name_bytes(repr, storage, bytes)) text = bytes;
  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(repr);
  return text;
}

std::string cprofile_name(const CFunction& function) {
  const std::string name = function.method->ml_name;
  const std::string module = module_name(function);
  if (function.self == nullptr)
    return module.empty() || module == "builtins" ? '<' + name + '>'
                                                  : '<' + module + '.' + name + '>';
  std::string repr = repr_in_type(function.self, function.method->ml_name);
  if (!repr.empty()) return repr;
  const bool is_text = function.module != nullptr && PyUnicode_Check(function.module);
  return "<built-in method " + (is_text ? module + '.' : std::string()) + name + '>';
}

std::string shown_name(const CFunction& function) {
  const std::string name = function.method->ml_name;
  const PyObject* self = function.self;
  if (self == nullptr || PyModule_Check(self)) return "<built-in function " + name + '>';
  return "<built-in method " + name + " of " + Py_TYPE(self)->tp_name + " object>";
}

// fastprof's functions, and PyTorch's that begin and end a range, which the range would overlap.
bool is_own(const CFunction& function) {
  constexpr char own[] = "fastprof._core";
  constexpr char of_torch[] = "_record_function_e";  // ..._enter, _enter_new, _exit
  if (std::strncmp(function.method->ml_name, of_torch, sizeof of_torch - 1) == 0) return true;
  const char* type = function.self == nullptr ? "" : Py_TYPE(function.self)->tp_name;
  return std::strncmp(type, own, sizeof own - 1) == 0 || module_name(function) == own;
}

const Site* make_c_function_site(const CFunction& function) {
  if (is_own(function)) return &own_call_site;
  // The prototype is its own, because `function` differs. The site itself is interned, so that
  // backing files contain it too.
  auto* like = new Site(python_call_site);
  like->function = intern_string(cprofile_name(function));
  return intern_site(*like, shown_name(function));
}

}  // namespace

KnownFunction g_recent_functions[kRecentFunctions];

const Site* site_of_c_function(const CFunction& function) noexcept {
  const HoldGilSubstitute hold(g_functions_lock);
  const PyMethodDef* method = function.method;
  const StackInUse in_use;
  try {
    KnownFunction& known = known_functions()[method];
    if (known.site == nullptr || known.name != method->ml_name) {
      const Site* site = make_c_function_site(function);
      known.method = method;
      known.name = method->ml_name;
      known.site = site;
    }
#if !defined(Py_GIL_DISABLED)
    recent_function(method) = known;
#endif
    return known.site;
  } catch (const std::bad_alloc&) {
    return &python_call_site;
  }
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
