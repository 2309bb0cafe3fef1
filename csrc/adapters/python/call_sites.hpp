// SPDX-License-Identifier: Apache-2.0
// What is known of a function whose calls are traced: its site, and whether its calls are shown.
//
// A code object refers to its CodeInfo by co_extra, which the interpreter frees with the code
// object, so that a look costs one call and nothing is kept alive. Functions written in C are found
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

// Which calls are recorded. A call that is left out does not hide those that it makes.
struct CallFilter {
  std::vector<std::string> files;           // beginnings of paths; empty: every file
  std::vector<std::string> excluded_files;  // beginnings of paths that are left out all the same
  std::vector<std::string> modules;         // modules with what is in them; empty: every module
  std::vector<std::string> excluded_modules;
  bool c_calls = true;              // calls of functions written in C
  uint32_t max_depth = UINT32_MAX;  // calls nested deeper are left out

  bool operator==(const CallFilter& other) const {
    return files == other.files && excluded_files == other.excluded_files &&
           modules == other.modules && excluded_modules == other.excluded_modules &&
           c_calls == other.c_calls && max_depth == other.max_depth;
  }
};

// Prototypes of the sites of calls: begun while traced, and on the stack when tracing began.
extern const Site python_call_site;
extern const Site enclosing_call_site;
extern const Site module_call_site;  // of torch.nn.Module objects

// Site of a call in fastprof's own code, so that what it calls of C functions and of the standard
// library is left out as well.
extern const Site own_call_site;

enum class CodeKind : uint8_t {
  plain,
  own,          // fastprof's: left out, and so are the C functions that it calls
  module_call,  // torch.nn.Module.__call__: shown as the module that is called
  library,      // of the standard library: left out where fastprof's own code calls it
};

// What is known of one code object; freed with it.
struct CodeInfo {
  const Site* site;     // null: left out
  uint64_t generation;  // of the tracing for which `site` holds
  CodeKind kind;
};

// Number of the tracing that runs; sites of another may be gone. Changed by renew_call_sites().
extern uint64_t g_call_generation;

// Takes an index of co_extra, once per process. False if the interpreter has none left.
bool prepare_code_infos();

// Paths with a separator at their end; empty: none.
struct CodeFolders {
  std::string own;      // of the package fastprof
  std::string library;  // of the standard library; installed packages in it are not meant
};

// Begins another generation with this filter. A session that records calls must be running until
// the tracing ends, which keeps the names alive.
void renew_call_sites(CallFilter filter, CodeFolders folders);
const CallFilter& call_filter() noexcept;

// The parts of the filter that every call asks for.
extern uint32_t g_max_call_depth;
extern bool g_c_calls;

// Says which code is torch.nn.Module.__call__ from now on; null: none is.
void set_module_call(PyObject* code);

// globals: of the frame that runs it; null: unknown. Never null.
const CodeInfo* make_code_info(PyObject* code, PyObject* globals);

// What PyCodeObject::co_extra points to (_PyCodeObjectExtra in Objects/codeobject.c, unchanged
// since CPython 3.6).
struct CodeExtras {
  Py_ssize_t size;
  void* extras[1];
};

// Index of the info among the extras of a code object. PY_SSIZE_T_MAX, so that nothing is found,
// until prepare_code_infos() has compared what is read here with what the interpreter returns, and
// without a GIL, where other threads may replace the extras.
extern Py_ssize_t g_readable_extra_index;

// The info of a code object in this generation; null: make_code_info() has to find or make it.
// Reads the extras itself: the interpreter's function takes 12 instructions of the 60 of a
// callback.
FASTPROF_ALWAYS_INLINE const CodeInfo* known_info_of_code(PyObject* code) {
  const auto* extras =
      static_cast<const CodeExtras*>(reinterpret_cast<PyCodeObject*>(code)->co_extra);
  if (FASTPROF_UNLIKELY(extras == nullptr || g_readable_extra_index >= extras->size))
    return nullptr;
  const auto* info = static_cast<const CodeInfo*>(extras->extras[g_readable_extra_index]);
  const bool known = info != nullptr && info->generation == g_call_generation;
  return FASTPROF_LIKELY(known) ? info : nullptr;
}

// A site like that of the code object's calls, for a call that is on the stack already; null: left
// out.
const Site* enclosing_site_of(PyObject* code);

// A function written in C, as it is called.
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

// Of a PyCFunction.
inline CFunction c_function_of(PyObject* object) noexcept {
  const auto* function = reinterpret_cast<const PyCFunctionObject*>(object);
  return {function->m_ml, function->m_self, function->m_module};
}

// The site of a function written in C; own_call_site if it is fastprof's.
const Site* site_of_c_function(const CFunction& function) noexcept;

// A function written in C and its site. Padded, so that its place in an array is a shift away.
struct alignas(32) KnownFunction {
  const PyMethodDef* method = nullptr;
  const char* name = nullptr;  // PyMethodDef::ml_name: another one was made where this one lay, if
                               // it differs
  const Site* site = nullptr;
};

// What was looked up last, by address. Guarded by the GIL; empty where there is none.
constexpr size_t kRecentFunctions = 1024;
extern KnownFunction g_recent_functions[kRecentFunctions];

FASTPROF_ALWAYS_INLINE KnownFunction& recent_function(const PyMethodDef* method) noexcept {
  return g_recent_functions[(reinterpret_cast<uintptr_t>(method) >> 5) % kRecentFunctions];
}

// What site_of_c_function() returns, if it was called for this function of late; else null.
FASTPROF_ALWAYS_INLINE const Site* recent_site_of(const PyMethodDef* method) noexcept {
  const KnownFunction& recent = recent_function(method);
  const bool same = recent.method == method && recent.name == method->ml_name;
  return FASTPROF_LIKELY(same) ? recent.site : nullptr;
}

// Beginning of the names of calls of torch.nn.Module objects.
constexpr std::string_view kModuleCallPrefix = "nn.Module: ";

// The site of a torch.nn.Module that is called: "nn.Module: Linear_0". Null without memory. It
// lives as long as a session or a NameUse of the caller.
const Site* site_of_module(PyObject* module) noexcept;

// The names of a call of a torch.nn.Module; null without memory.
struct ModuleNames {
  const Site* site;  // as site_of_module() returns it
  const char* path;  // "Sequential_0.Linear_1"; lives as long as the process
};

// outer: the path of the modules whose calls are in progress; null: none.
ModuleNames names_of_module(PyObject* module, const char* outer) noexcept;

// Counts those who need names of modules. Their numbers begin at 0 again with the first one.
void use_module_names(bool on) noexcept;

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
