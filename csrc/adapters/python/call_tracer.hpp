// SPDX-License-Identifier: Apache-2.0
// Tracing of Python calls: while at least one profile requests them, every call of a function
// written in Python or C, on every thread, becomes a range of category python_call.
//
// CPython <= 3.11 calls a C profile function of each thread (profile_function.cpp). Later versions
// have sys.monitoring, whose callbacks cover all threads (monitoring.cpp).
#pragma once

#include <Python.h>

#include <string>

#include "adapters/python/call_lines.hpp"
#include "adapters/python/call_sites.hpp"
#include "adapters/python/call_stack.hpp"
#include "adapters/python/module_calls.hpp"
#include "adapters/python/stack_in_use.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

// What start_tracing() could not do. Both texts are empty if it did everything.
struct TracingProblems {
  std::string not_traced;  // owners of other profile functions, and their threads
  std::string filter;      // why the given filter is not used
};

// Names calls of torch.nn.Module objects after their modules, if torch was imported since the
// tracing began. GIL.
void look_for_modules();

// Starts tracing for one more profile, whose session must run from before this call until after
// stop_tracing(). GIL. Throws std::bad_alloc, or StateError if the interpreter offers no place for
// the hooks.
TracingProblems start_tracing(const CallFilter& filter, const CodeFolders& folders);

// Stops tracing for one profile, which began at `since_ns` (CLOCK_MONOTONIC). Returns when other
// profile functions were in the place of ours, on which threads; empty if never. GIL; sets no
// error.
std::string stop_tracing(int64_t since_ns) noexcept;

// Calls `function` on the calling thread after the innermost call of `code` on its stack has
// returned, or when the tracing ends, whichever is first. Returns false if it cannot: another
// return is awaited, there is no such call, or the thread's profile function is not the tracer's
// (always on CPython >= 3.12). GIL; takes a reference to `function`.
bool call_at_return(PyObject* code, PyObject* function);

// Forgets the parent's tracing in a forked child. GIL.
void forget_tracing_in_child() noexcept;

// ---- Between the two ways and what they share. GIL. ---------------------------------------------

// Installs the hooks. Returns the owners of other profile functions and their threads; empty if
// none. Throws std::bad_alloc, StateError.
std::string install_hooks();
// Records the calls that have been on the stacks since the start, and removes the hooks. Returns
// the owners of profile functions that replaced ours meanwhile.
std::string remove_hooks() noexcept;
// Describes when threads were not traced, in seconds after `since_ns`; empty if always.
std::string tracing_gaps(int64_t since_ns);
void forget_hooks_in_child() noexcept;
// The calling thread's stack; null if its calls are not traced.
CallStack* stack_of_this_thread() noexcept;

// Fills an empty CallStack with the frames of a thread, as calls that began before the tracing.
void add_frames_of(PyThreadState* thread, CallStack& calls);

// Records the calls that have been on a thread's stack since the start.
void end_frames_of(PyThreadState* thread, CallStack& calls) noexcept;

// Begins a call with CallFilter::sum_frequent. info: of a kind from CodeKind::counted on.
void begin_counted_call(CallStack& calls, PyObject* code, const CodeInfo* info,
                        CallingInstruction caller) noexcept;
// Begins the call of importlib that imports a module. name: its first argument.
void begin_import(CallStack& calls, PyObject* code, const CodeInfo* info, PyObject* name,
                  CallingInstruction caller) noexcept;
// Begins the call of a function written in C with CallFilter::sum_frequent. site: null if unknown.
void begin_counted_c_call(CallStack& calls, const PyMethodDef* method, const Site* site,
                          CallingInstruction caller) noexcept;

// The uncommon cases of begin_python_call(): the first call of a function, calls of torch.nn.Module
// objects, calls in fastprof's own code, and what that calls of the standard library.
template <class Globals, class FirstArgument>
FASTPROF_COLD void begin_rare_call(CallStack& calls, PyObject* code, CallingInstruction caller,
                                   Globals globals, FirstArgument first_argument) noexcept {
  const StackInUse in_use;
  const CodeInfo* info = make_code_info(code, globals());
  const Site* site = info->site;
  if (info->kind == CodeKind::own || (info->kind == CodeKind::library && calls.is_in_own_code())) {
    calls.begin_marked(code, &own_call_site);
    return;
  }
  if (info->kind == CodeKind::import) {
    begin_import(calls, code, info, first_argument(), caller);
    return;
  }
  if (info->kind >= CodeKind::counted) {
    begin_counted_call(calls, code, info, caller);
    return;
  }
  PyObject* module = info->kind == CodeKind::module_call ? first_argument() : nullptr;
  if (is_recorded_module_call(module)) {
    calls.begin(code, nullptr);
    return;
  }
  const Site* site_of_it = module == nullptr ? nullptr : site_of_module(module);
  if (site_of_it != nullptr) site = site_of_it;
  begin_at(calls, code, calls.depth() >= g_max_call_depth ? nullptr : site, info, caller);
}

// Begins the call of a Python function. caller(): the CallingInstruction. globals(),
// first_argument(): of its frame; null if unknown.
template <class Caller, class Globals, class FirstArgument>
FASTPROF_ALWAYS_INLINE void begin_python_call(CallStack& calls, PyObject* code, Caller caller,
                                              Globals globals,
                                              FirstArgument first_argument) noexcept {
  const CodeInfo* info = known_info_of_code(code);
  const bool known =
      info != nullptr && (info->kind == CodeKind::plain ||
                          (info->kind == CodeKind::library && !calls.is_in_own_code()));
  if (FASTPROF_LIKELY(known))
    begin_at(calls, code, calls.depth() >= g_max_call_depth ? nullptr : info->site, info, caller());
  else if (info != nullptr && info->kind >= CodeKind::counted)
    begin_counted_call(calls, code, info, caller());
  else
    begin_rare_call(calls, code, caller(), globals, first_argument);
}

// begin_c_call() for a function that is not in the cache.
template <class Function>
FASTPROF_COLD void begin_new_c_call(CallStack& calls, const PyMethodDef* method,
                                    CallingInstruction caller, Function function) noexcept {
  const Site* site = site_of_c_function(function());
  begin_at(calls, method, site == &own_call_site ? nullptr : site, &unknown_code_info, caller);
}

// Begins the call of a function written in C. caller(): the CallingInstruction. function(): its
// CFunction.
template <class Caller, class Function>
FASTPROF_ALWAYS_INLINE void begin_c_call(CallStack& calls, const PyMethodDef* method, Caller caller,
                                         Function function) noexcept {
  if (FASTPROF_UNLIKELY(calls.is_in_own_code())) {
    calls.begin_marked(method, &own_call_site);  // so that what it calls is hidden, too
    return;
  }
  const bool hidden = !g_c_calls || calls.depth() >= g_max_call_depth;
  const Site* site = nullptr;
  if (FASTPROF_UNLIKELY(hidden && g_count_c_calls)) {
    site = recent_site_of(method);
    begin_counted_c_call(calls, method, site != nullptr ? site : site_of_c_function(function()),
                         caller());
    return;
  }
  if (FASTPROF_LIKELY(!hidden)) {
    site = recent_site_of(method);
    if (FASTPROF_UNLIKELY(site == nullptr)) {
      begin_new_c_call(calls, method, caller(), function);
      return;
    }
    if (FASTPROF_UNLIKELY(site == &own_call_site)) site = nullptr;
  }
  begin_at(calls, method, site, &unknown_code_info, caller());
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
