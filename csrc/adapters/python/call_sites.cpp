// SPDX-License-Identifier: Apache-2.0
// Sites of code objects: see call_sites.hpp.
#include "adapters/python/call_sites.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "adapters/python/call_counts.hpp"
#include "adapters/python/name_bytes.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/hot_path/site_macros.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

constexpr Site python_call_site = make_site(SiteKind::range, category::python_call,
                                            RecordScope::USER_SCOPE, "<too many names>", "", "", 0);

namespace {

constexpr Site with_flags(Site site, uint32_t flags) noexcept {
  site.flags = flags;
  return site;
}

}  // namespace

constexpr Site enclosing_call_site =
    with_flags(make_site(SiteKind::range, category::python_call, RecordScope::USER_SCOPE,
                         "<too many names>", "", "<on the stack at the start>", 0),
               site_flag::end_only);

constexpr Site module_call_site =
    make_site(SiteKind::range, category::python_call | category::python_module,
              RecordScope::USER_SCOPE, "<too many names>", "", "", 0);

constexpr Site own_call_site = make_site(SiteKind::range, category::python_call,
                                         RecordScope::USER_SCOPE, "<fastprof>", "", "", 0);

constexpr Site import_inner_site = make_site(SiteKind::range, category::python_call,
                                             RecordScope::USER_SCOPE, "<import>", "", "", 0);

const CodeInfo unknown_code_info{nullptr, 0, CodeKind::plain};

uint64_t g_call_generation = 0;
Py_ssize_t g_readable_extra_index = PY_SSIZE_T_MAX;
uint32_t g_max_call_depth = UINT32_MAX;
bool g_c_calls = true;
bool g_count_c_calls = false;

namespace {

CallFilter& filter() {
  static auto* only = new CallFilter;
  return *only;
}
CodeFolders& folders() {
  static auto* only = new CodeFolders;
  return *only;
}
PyObject* g_module_call = nullptr;  // code object, owned
Py_ssize_t g_code_extra_index = -1;

void free_code_info(void* object) {
  auto* info = static_cast<CodeInfo*>(object);
  if (info != nullptr && info->lines != nullptr) std::free(info->lines - 1);
  delete info;
}

bool begins_with(std::string_view text, std::string_view beginning) noexcept {
  return text.substr(0, beginning.size()) == beginning;
}

bool is_in(std::string_view file, const std::string& folder) noexcept {
  return !folder.empty() && begins_with(file, folder);
}

bool is_named(PyObject* code, const char* name) noexcept {
  PyObject* own = reinterpret_cast<PyCodeObject*>(code)->co_name;
  return PyUnicode_CompareWithASCIIString(own, name) == 0;
}

bool is_in_packages(std::string_view file) noexcept {
  return file.find("site-packages") != std::string_view::npos ||
         file.find("dist-packages") != std::string_view::npos;
}

// Returns whether the code belongs to the standard library. Module-level code does not count: it
// may be the program that is run.
bool is_library(std::string_view file, PyObject* code) noexcept {
  const bool inside =
      begins_with(file, "<frozen ") || (is_in(file, folders().library) && !is_in_packages(file));
  return inside && !is_named(code, "<module>");
}

bool ends_with(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Returns whether the code begins or ends a range of PyTorch: such calls would overlap the range,
// because it begins inside of the one and ends inside of the other.
bool is_range_of_torch(std::string_view file, PyObject* code) noexcept {
  return ends_with(file, "torch/autograd/profiler.py") &&
         (is_named(code, "__enter__") || is_named(code, "__exit__"));
}

constexpr std::string_view kImportlib = "<frozen importlib._bootstrap";

// The kind of a function other than fastprof's.
CodeKind kind_of(std::string_view file, PyObject* code) noexcept {
  const bool of_import = begins_with(file, kImportlib);
  if (of_import && is_named(code, "_find_and_load")) return CodeKind::import;
  if (code == g_module_call) return CodeKind::module_call;
  if (!filter().sum_frequent) {
    // What PyTorch's ranges call is hidden where they begin and end.
    const bool library = is_library(file, code) || ends_with(file, "torch/_ops.py") ||
                         ends_with(file, "torch/autograd/profiler.py");
    return library ? CodeKind::library : CodeKind::plain;
  }
  if (of_import) return CodeKind::import_machinery;
  if (!is_in_packages(file) && !is_in(file, folders().library) && !begins_with(file, "<frozen "))
    return CodeKind::counted;
  return is_named(code, "<module>") ? CodeKind::counted_module : CodeKind::counted_installed;
}

bool begins_with_any(std::string_view text, const std::vector<std::string>& beginnings) {
  for (const std::string& one : beginnings)
    if (begins_with(text, one)) return true;
  return false;
}

bool in_any_module(std::string_view module, const std::vector<std::string>& modules) {
  for (const std::string& one : modules)
    if (begins_with(module, one) && (module.size() == one.size() || module[one.size()] == '.'))
      return true;
  return false;
}

// Returns __name__ of the globals' module; empty if it has none.
std::string module_of(PyObject* globals) {
  PyObject* name = globals != nullptr && PyDict_Check(globals)
                       ? PyDict_GetItemString(globals, "__name__")
                       : nullptr;
  std::string storage;
  std::string_view bytes;
  if (name == nullptr || !PyUnicode_Check(name) || !name_bytes(name, storage, bytes)) {
    PyErr_Clear();
    return {};
  }
  return std::string(bytes);
}

bool is_wanted(std::string_view file, PyObject* globals) {
  const CallFilter& f = filter();
  if (!f.files.empty() && !begins_with_any(file, f.files)) return false;
  if (begins_with_any(file, f.excluded_files)) return false;
  if (f.modules.empty() && f.excluded_modules.empty()) return true;
  const std::string module = module_of(globals);
  if (!f.modules.empty() && !in_any_module(module, f.modules)) return false;
  return !in_any_module(module, f.excluded_modules);
}

// Sets `name` to "file(line): function", PyTorch's name for calls of Python functions. Returns
// false without memory.
bool name_of_code(PyObject* object, std::string& file, std::string& name) {
  auto* code = reinterpret_cast<PyCodeObject*>(object);
  std::string storage;
  std::string_view bytes;
  if (!name_bytes(code->co_filename, storage, bytes)) return false;
  file = bytes;
  name = file + '(' + std::to_string(code->co_firstlineno) + "): ";
  if (!name_bytes(code->co_name, storage, bytes)) return false;
  name += bytes;
  return true;
}

const Site* site_like(const Site& like, std::string_view name) noexcept {
  NameUse use;
  return session_site(use, like, name);
}

// Returns the info stored with a code object, of any generation; null if there is none.
CodeInfo* stored_info_of_code(PyObject* code) {
  void* extra = nullptr;
#if PY_VERSION_HEX >= 0x030C0000
  PyUnstable_Code_GetExtra(code, g_code_extra_index, &extra);
#else
  _PyCode_GetExtra(code, g_code_extra_index, &extra);
#endif
  return static_cast<CodeInfo*>(extra);
}

// Stores an info with a code object, which then owns it. Returns false, with no error set, if the
// interpreter refuses.
bool store_info(PyObject* code, CodeInfo* info) {
#if PY_VERSION_HEX >= 0x030C0000
  const int failed = PyUnstable_Code_SetExtra(code, g_code_extra_index, info);
#else
  const int failed = _PyCode_SetExtra(code, g_code_extra_index, info);
#endif
  if (failed != 0) PyErr_Clear();
  return failed == 0;
}

// Enables known_info_of_code() if a direct read of co_extra finds what was stored through the
// interpreter.
void prove_code_extras() {
#if !defined(Py_GIL_DISABLED)
  auto* code = reinterpret_cast<PyObject*>(PyCode_NewEmpty("<fastprof>", "extras", 1));
  auto* info = new (std::nothrow) CodeInfo{nullptr, g_call_generation, CodeKind::plain};
  if (code == nullptr || info == nullptr || !store_info(code, info)) {
    delete info;
  } else {
    const auto* extras =
        static_cast<const CodeExtras*>(reinterpret_cast<PyCodeObject*>(code)->co_extra);
    if (extras != nullptr && extras->size > g_code_extra_index && extras->size < 256 &&
        extras->extras[g_code_extra_index] == info)
      g_readable_extra_index = g_code_extra_index;
  }
  PyErr_Clear();
  Py_XDECREF(code);
#endif
}

}  // namespace

bool prepare_code_infos() {
  if (g_code_extra_index >= 0) return true;
#if PY_VERSION_HEX >= 0x030C0000
  g_code_extra_index = PyUnstable_Eval_RequestCodeExtraIndex(free_code_info);
#else
  g_code_extra_index = _PyEval_RequestCodeExtraIndex(free_code_info);
#endif
  if (g_code_extra_index < 0) return false;
  prove_code_extras();
  return true;
}

void renew_call_sites(CallFilter wanted, CodeFolders of_code) {
  g_max_call_depth = wanted.max_depth;
  g_c_calls = wanted.c_calls && !wanted.sum_frequent;
  g_count_c_calls = wanted.c_calls && wanted.sum_frequent;
  forget_call_counts();
  filter() = std::move(wanted);
  folders() = std::move(of_code);
  ++g_call_generation;
}

const CallFilter& call_filter() noexcept {
  return filter();
}

void set_module_call(PyObject* code) {
  if (code == g_module_call) return;
  Py_XINCREF(code);
  PyObject* former = std::exchange(g_module_call, code);
  ++g_call_generation;
  Py_XDECREF(former);
}

const CodeInfo* make_code_info(PyObject* code, PyObject* globals) {
  CodeInfo* info = stored_info_of_code(code);
  if (info != nullptr && info->generation == g_call_generation) return info;
  if (info == nullptr) {
    info = new (std::nothrow) CodeInfo{};
    if (info == nullptr) return &unknown_code_info;
    if (!store_info(code, info)) {
      delete info;
      return &unknown_code_info;
    }
  }
  std::string file, name;
  info->site = nullptr;
  info->kind = CodeKind::plain;
  if (!name_of_code(code, file, name)) {
    PyErr_Clear();
    return info;  // retried at the next call
  }
  info->generation = g_call_generation;
  if (is_in(file, folders().own) || is_range_of_torch(file, code)) {
    info->kind = CodeKind::own;
    return info;
  }
  info->kind = kind_of(file, code);
  if (!is_wanted(file, globals)) {
    if (info->kind == CodeKind::module_call) info->kind = CodeKind::plain;
    return info;
  }
  info->site = site_like(python_call_site, name);
  return info;
}

const Site* site_of_import(PyObject* name) noexcept {
  std::string storage;
  std::string_view bytes;
  try {
    if (name == nullptr || !PyUnicode_Check(name) || !name_bytes(name, storage, bytes)) {
      PyErr_Clear();
      return nullptr;
    }
    return site_like(python_call_site, "import " + std::string(bytes));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

const Site* enclosing_site_of(PyObject* code) {
  const CodeInfo* info = known_info_of_code(code);
  if (info == nullptr) info = make_code_info(code, nullptr);
  if (info->site == nullptr) return nullptr;
  std::string file, name;
  if (!name_of_code(code, file, name)) {
    PyErr_Clear();
    return nullptr;
  }
  return site_like(enclosing_call_site, name);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
