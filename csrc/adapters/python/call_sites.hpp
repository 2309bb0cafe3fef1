// SPDX-License-Identifier: Apache-2.0
// Sites of traced functions: maps code objects and functions written in C to the Site under which
// their calls are recorded, or to "not recorded".
//
// A code object refers to its CodeInfo by co_extra, which the interpreter frees with the code
// object, so that a lookup is a few loads and keeps nothing alive. Functions written in C are found
// by their PyMethodDef. All functions require the GIL.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// Selects the calls that are recorded. Calls made by an unselected call are recorded if they are
// selected themselves.
struct CallFilter {
  std::vector<std::string> files;             // path prefixes; empty: every file
  std::vector<std::string> excluded_files;    // path prefixes; override `files`
  std::vector<std::string> modules;           // with their submodules; empty: every module
  std::vector<std::string> excluded_modules;  // with their submodules; override `modules`
  bool c_calls = true;                        // calls of functions written in C
  uint32_t max_depth = UINT32_MAX;            // calls nested deeper are not recorded
  // Count calls of functions that are called very often instead of recording them
  // (call_counts.hpp), and record the imports of installed packages without the calls that they
  // make.
  bool sum_frequent = false;

  bool operator==(const CallFilter& other) const {
    return files == other.files && excluded_files == other.excluded_files &&
           modules == other.modules && excluded_modules == other.excluded_modules &&
           c_calls == other.c_calls && max_depth == other.max_depth &&
           sum_frequent == other.sum_frequent;
  }
};

// Prototypes of call sites: calls that began while traced, and calls on the stack when tracing
// began.
extern const Site python_call_site;
extern const Site enclosing_call_site;
extern const Site module_call_site;  // of torch.nn.Module objects

// Marks a call in fastprof's own code. The C functions and standard-library functions that it calls
// are not recorded either.
extern const Site own_call_site;

// Marks a call made by the import of an installed package, with CallFilter::sum_frequent: it is not
// recorded.
extern const Site import_inner_site;

enum class CodeKind : uint8_t {
  plain,
  own,          // fastprof's, PyTorch's of ranges: not recorded, nor are C functions that it calls
  module_call,  // torch.nn.Module.__call__: named after the module that is called
  library,      // the standard library's: not recorded if fastprof's own code calls it
  import,       // importlib's function that imports a module: named "import MODULE"
  // With CallFilter::sum_frequent, in place of plain and library:
  counted,            // the program's own
  counted_installed,  // functions of the standard library and of installed packages
  counted_module,     // their modules' own code
  import_machinery,   // importlib's functions
};

// The site of a code object's calls. Freed with the code object.
struct CodeInfo {
  const Site* site;     // null: not recorded
  uint64_t generation;  // the value of g_call_generation for which `site` is valid
  CodeKind kind;
  // Line of each code unit from which a call was made, 0 for all others (call_lines.hpp). Null
  // until the first call. Guarded by the GIL; always null on interpreters without one.
  mutable uint16_t* lines = nullptr;
};

// The info of unknown code and of code whose calls are not recorded: no site, no lines.
extern const CodeInfo unknown_code_info;

// Generation of the current tracing; sites of earlier generations may have been freed. Incremented
// by renew_call_sites(), and by set_module_call() if the code changes.
extern uint64_t g_call_generation;

// Reserves an index of co_extra, once per process. Returns false if all indices are taken.
bool prepare_code_infos();

// Folders whose code is treated specially, each with a trailing separator; empty: none.
struct CodeFolders {
  std::string own;      // the package fastprof
  std::string library;  // the standard library; site-packages inside it do not count
};

// Starts a new generation with this filter. A session that records calls must run until the tracing
// ends: it keeps the names alive.
void renew_call_sites(CallFilter filter, CodeFolders folders);
const CallFilter& call_filter() noexcept;

// Copies of the filter's members that every call reads.
extern uint32_t g_max_call_depth;
extern bool g_c_calls;        // record them all
extern bool g_count_c_calls;  // record them as count_call() decides

// Sets the code object of torch.nn.Module.__call__; null: none. Takes a reference.
void set_module_call(PyObject* code);

// Returns the info of a code object in this generation, creating it if necessary; never null.
// globals: those of the frame that runs the code; null if unknown.
const CodeInfo* make_code_info(PyObject* code, PyObject* globals);

// What PyCodeObject::co_extra points to (_PyCodeObjectExtra in Objects/codeobject.c, unchanged
// since CPython 3.6).
struct CodeExtras {
  Py_ssize_t size;
  void* extras[1];
};

// Index of the info among the extras of a code object. PY_SSIZE_T_MAX, which finds nothing, until
// prepare_code_infos() has compared a direct read with what the interpreter returns; always without
// a GIL, where other threads may replace the extras.
extern Py_ssize_t g_readable_extra_index;

// Returns the info of a code object in this generation; null if make_code_info() must find or
// create it. Reads the extras directly: the interpreter's function takes 12 of a callback's 60
// instructions.
FASTPROF_ALWAYS_INLINE const CodeInfo* known_info_of_code(PyObject* code) {
  const auto* extras =
      static_cast<const CodeExtras*>(reinterpret_cast<PyCodeObject*>(code)->co_extra);
  if (FASTPROF_UNLIKELY(extras == nullptr || g_readable_extra_index >= extras->size))
    return nullptr;
  const auto* info = static_cast<const CodeInfo*>(extras->extras[g_readable_extra_index]);
  const bool known = info != nullptr && info->generation == g_call_generation;
  return FASTPROF_LIKELY(known) ? info : nullptr;
}

// Returns the site of a call that was on the stack when tracing began; null: not recorded.
const Site* enclosing_site_of(PyObject* code);

// Returns the site of the import of a module: "import torch.nn". name: its name, a str; null
// without one.
const Site* site_of_import(PyObject* name) noexcept;

// A callable written in C, as seen at a call.
struct CFunction {
  const PyMethodDef* method;
  PyObject* self;    // null: none
  PyObject* module;  // module or its name; null: unknown
};

// Whether an object is a PyCFunction. Compares types: PyCFunction_Check() searches the bases of
// every other callable's type. PyCMethod_Type is the one type derived from PyCFunction_Type, and
// none can be from either.
FASTPROF_ALWAYS_INLINE bool is_c_function(PyObject* object) noexcept {
  const PyTypeObject* type = Py_TYPE(object);
  return FASTPROF_LIKELY(type == &PyCFunction_Type) || type == &PyCMethod_Type;
}

// object: a PyCFunction.
inline CFunction c_function_of(PyObject* object) noexcept {
  const auto* function = reinterpret_cast<const PyCFunctionObject*>(object);
  return {function->m_ml, function->m_self, function->m_module};
}

// Returns the site of a function written in C; own_call_site if it is fastprof's.
const Site* site_of_c_function(const CFunction& function) noexcept;

// A function written in C and its site. Aligned to 32 bytes, so that indexing is a shift.
struct alignas(32) KnownFunction {
  const PyMethodDef* method = nullptr;
  // PyMethodDef::ml_name. If it differs, the memory has been reused for another PyMethodDef.
  const char* name = nullptr;
  const Site* site = nullptr;
};

// Direct-mapped cache of recent lookups, by address. Guarded by the GIL; always empty without one.
constexpr size_t kRecentFunctions = 1024;
extern KnownFunction g_recent_functions[kRecentFunctions];

FASTPROF_ALWAYS_INLINE KnownFunction& recent_function(const PyMethodDef* method) noexcept {
  return g_recent_functions[(reinterpret_cast<uintptr_t>(method) >> 5) % kRecentFunctions];
}

// Returns the cached result of site_of_c_function(); null if this function is not in the cache.
FASTPROF_ALWAYS_INLINE const Site* recent_site_of(const PyMethodDef* method) noexcept {
  const KnownFunction& recent = recent_function(method);
  const bool same = recent.method == method && recent.name == method->ml_name;
  return FASTPROF_LIKELY(same) ? recent.site : nullptr;
}

// Prefix of the names of calls of torch.nn.Module objects.
constexpr std::string_view kModuleCallPrefix = "nn.Module: ";

// Returns the site of calls of a torch.nn.Module: "nn.Module: Linear_0". Null without memory. Valid
// while a session, or a NameUse of the caller, exists.
const Site* site_of_module(PyObject* module) noexcept;

// The names of a call of a torch.nn.Module; both null without memory.
struct ModuleNames {
  const Site* site;  // as site_of_module() returns it
  const char* path;  // "Sequential_0.Linear_1"; lives as long as the process
};

// outer: path of the modules whose calls are in progress; null: none.
ModuleNames names_of_module(PyObject* module, const char* outer) noexcept;

// Counts the users of module names. The numbers in names restart at 0 with the first user.
void use_module_names(bool on) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
