// SPDX-License-Identifier: Apache-2.0
// Tracing of Python calls: every call of a function, written in Python or C, on every thread,
// becomes a range of category python_call while at least one profile wants it.
//
// CPython <= 3.11 calls a C profile function of each thread (profile_function.cpp). Newer ones have
// sys.monitoring, whose callbacks see all threads (monitoring.cpp).
#pragma once

#include <Python.h>

#include <string>

#include "adapters/python/call_sites.hpp"
#include "adapters/python/call_stack.hpp"
#include "adapters/python/module_calls.hpp"
#include "adapters/python/stack_in_use.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// What start_tracing() could not do; empty texts: all of it.
struct TracingProblems {
  std::string not_traced;  // who has the place of the profile function, and where
  std::string filter;      // why another filter than the given one is used
};

// Shows calls of torch.nn.Module objects as modules if torch was imported since the tracing began.
// GIL.
void look_for_modules();

// Begins tracing for one more profile. Its session must have been started, and run until
// stop_tracing(). GIL. Throws std::bad_alloc, StateError.
TracingProblems start_tracing(const CallFilter& filter, const CodeFolders& folders);

// Ends tracing for one profile. Returns who took the place of the profile function meanwhile; empty
// for nobody. GIL; sets no error.
std::string stop_tracing() noexcept;

// Calls `function` on the calling thread when the innermost call of `code` on its stack has
// returned, or when the tracing ends before that. Returns false if it cannot: another return is
// awaited, there is no such call, or the thread's profile function is not the tracer's, as always
// on CPython >= 3.12. GIL; takes a reference.
bool call_at_return(PyObject* code, PyObject* function);

// Forgets the parent's tracing in a forked child. GIL.
void forget_tracing_in_child() noexcept;

// ---- Between the two ways and what they share. GIL. ---------------------------------------------

// Installs the hooks. Returns who has their place on which threads; empty for nobody.
std::string install_hooks();
// Records what is still on the stacks since the start, and removes the hooks. Returns who took
// their place meanwhile.
std::string remove_hooks() noexcept;
void forget_hooks_in_child() noexcept;

// Fills an empty stack with the frames of a thread, as calls that began before the tracing.
void add_frames_of(PyThreadState* thread, CallStack& calls);

// Records what is still on the stack of a thread since the start.
void end_frames_of(PyThreadState* thread, CallStack& calls) noexcept;

// begin_python_call() for rare calls: the first one of a function, those of torch.nn.Module and of
// fastprof's own code, and what that calls of the standard library.
template <class Globals, class FirstArgument>
FASTPROF_COLD void begin_rare_call(CallStack& calls, PyObject* code, Globals globals,
                                   FirstArgument first_argument) noexcept {
  const StackInUse in_use;
  const CodeInfo* info = make_code_info(code, globals());
  const Site* site = info->site;
  if (info->kind == CodeKind::own || (info->kind == CodeKind::library && calls.is_in_own_code())) {
    calls.begin(code, nullptr);
    if (!calls.empty() && calls.innermost().key == code) calls.innermost().site = &own_call_site;
    return;
  }
  PyObject* module = info->kind == CodeKind::module_call ? first_argument() : nullptr;
  if (is_recorded_module_call(module)) {
    calls.begin(code, nullptr);
    return;
  }
  const Site* site_of_it = module == nullptr ? nullptr : site_of_module(module);
  if (site_of_it != nullptr) site = site_of_it;
  calls.begin(code, calls.depth() >= g_max_call_depth ? nullptr : site);
}

// Begins the call of a Python function. globals(), first_argument(): of its frame; null if unknown.
template <class Globals, class FirstArgument>
FASTPROF_ALWAYS_INLINE void begin_python_call(CallStack& calls, PyObject* code, Globals globals,
                                              FirstArgument first_argument) noexcept {
  const CodeInfo* info = known_info_of_code(code);
  const bool known =
      info != nullptr && (info->kind == CodeKind::plain ||
                          (info->kind == CodeKind::library && !calls.is_in_own_code()));
  if (FASTPROF_LIKELY(known))
    calls.begin(code, calls.depth() >= g_max_call_depth ? nullptr : info->site);
  else
    begin_rare_call(calls, code, globals, first_argument);
}

// begin_c_call() for a function that was not called of late.
template <class Function>
FASTPROF_COLD void begin_new_c_call(CallStack& calls, const PyMethodDef* method,
                                    Function function) noexcept {
  const Site* site = site_of_c_function(function());
  calls.begin(method, site == &own_call_site ? nullptr : site);
}

// Begins the call of a function written in C. function(): its CFunction.
template <class Function>
FASTPROF_ALWAYS_INLINE void begin_c_call(CallStack& calls, const PyMethodDef* method,
                                         Function function) noexcept {
  const bool hidden = !g_c_calls || calls.depth() >= g_max_call_depth || calls.is_in_own_code();
  const Site* site = nullptr;
  if (FASTPROF_LIKELY(!hidden)) {
    site = recent_site_of(method);
    if (FASTPROF_UNLIKELY(site == nullptr)) {
      begin_new_c_call(calls, method, function);
      return;
    }
    if (FASTPROF_UNLIKELY(site == &own_call_site)) site = nullptr;
  }
  calls.begin(method, site);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
