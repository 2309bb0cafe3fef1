// SPDX-License-Identifier: Apache-2.0
// What both tracing mechanisms share: see call_tracer.hpp.
#include "adapters/python/call_tracer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "adapters/python/call_counts.hpp"
#include "adapters/python/frames.hpp"
#include "adapters/python/lock_entries.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

std::atomic<uint32_t> g_stacks_in_use{0};

namespace {

uint32_t g_profiles = 0;  // profiles that trace calls; guarded by the GIL

// torch.nn.Module.__call__'s code object, borrowed; null if torch is not imported.
PyObject* find_module_call() {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* torch_module = PyDict_GetItemString(modules, "torch.nn.modules.module");
  PyObject* type =
      torch_module == nullptr ? nullptr : PyObject_GetAttrString(torch_module, "Module");
  PyObject* call = type == nullptr ? nullptr : PyObject_GetAttrString(type, "__call__");
  PyObject* code = call != nullptr && PyFunction_Check(call) ? PyFunction_GET_CODE(call) : nullptr;
  PyErr_Clear();
  Py_XDECREF(call);
  Py_XDECREF(type);
  return code;
}

}  // namespace

TracingProblems start_tracing(const CallFilter& filter, const CodeFolders& folders) {
  TracingProblems problems;
  if (!prepare_code_infos())
    raise<StateError>(
        "calls cannot be traced: other tools use all indices of the interpreter for data of code "
        "objects (co_extra). Profile without one of these tools, or with python_calls=False");
  if (g_profiles == 0) {
    use_module_names(true);
    renew_call_sites(filter, folders);
    set_module_call(find_module_call());
  } else if (!(filter == call_filter())) {
    problems.filter =
        "another profile traces calls with other filters, which apply to this one as well";
  }
  ++g_profiles;
  try {
    problems.not_traced = install_hooks();
    record_lock_entries(true);
  } catch (...) {
    stop_tracing(0);
    throw;
  }
  return problems;
}

void begin_counted_call(CallStack& calls, PyObject* code, const CodeInfo* info,
                        CallingInstruction caller) noexcept {
  const bool installed = info->kind == CodeKind::counted_installed;
  const bool machinery = info->kind == CodeKind::import_machinery;
  if ((installed || machinery) && calls.is_in_own_code()) {
    calls.begin_marked(code, &own_call_site);
  } else if (machinery || (info->kind != CodeKind::counted && calls.is_in_import())) {
    calls.begin_marked(code, &import_inner_site);
  } else {
    const bool recorded =
        info->site != nullptr && calls.depth() < g_max_call_depth && count_call(info->site);
    begin_at(calls, code, recorded ? info->site : nullptr, info, caller);
  }
}

void begin_import(CallStack& calls, PyObject* code, const CodeInfo* info, PyObject* name,
                  CallingInstruction caller) noexcept {
  if (calls.is_in_own_code()) {
    calls.begin_marked(code, &own_call_site);
    return;
  }
  const Site* site = info->site;
  if (site != nullptr) {
    if (const Site* named = site_of_import(name)) site = named;
    if (calls.depth() >= g_max_call_depth) site = nullptr;
  }
  if (!call_filter().sum_frequent) {
    begin_at(calls, code, site, info, caller);
    return;
  }
  begin_at(calls, code, site != nullptr && count_call(site) ? site : nullptr, info, caller);
  // The mark ends together with the call above. Until then, calls that the function itself makes
  // are not recorded.
  calls.begin_marked(&import_inner_site, &import_inner_site);
}

void begin_counted_c_call(CallStack& calls, const PyMethodDef* method, const Site* site,
                          CallingInstruction caller) noexcept {
  if (calls.is_in_import()) {  // such as exec(), which runs a module's code
    calls.begin_marked(method, &import_inner_site);
    return;
  }
  const bool recorded = site != nullptr && site != &own_call_site &&
                        calls.depth() < g_max_call_depth && count_call(site);
  begin_at(calls, method, recorded ? site : nullptr, &unknown_code_info, caller);
}

void look_for_modules() {
  if (g_profiles == 0) return;
  if (PyObject* code = find_module_call(); code != nullptr) set_module_call(code);
}

std::string stop_tracing(int64_t since_ns) noexcept {
  if (g_profiles == 0) return {};
  std::string reason = tracing_gaps(since_ns);
  if (--g_profiles != 0) return reason;
  record_lock_entries(false);
  const std::string others = remove_hooks();
  if (!reason.empty() && !others.empty()) reason += ", ";
  reason += others;
  set_module_call(nullptr);
  use_module_names(false);
  return reason;
}

void forget_tracing_in_child() noexcept {
  if (std::exchange(g_profiles, 0u) == 0) return;
  record_lock_entries(false);
  forget_hooks_in_child();
  set_module_call(nullptr);
  use_module_names(false);
}

void add_frames_of(PyThreadState* thread, CallStack& calls) {
  std::vector<PythonFrame> frames(64);
  uint32_t count = 0;
  for (;;) {
    count = walk_python_frames(thread, frames.data(), static_cast<uint32_t>(frames.size()));
    if (count < frames.size()) break;
    frames.resize(frames.size() * 4);
  }
  uint64_t begin = ordered_ticks(state());
  for (uint32_t i = count; i-- > 0;) {
    PyObject* code = frames[i].code;
    const Site* site = enclosing_site_of(code);
    const CodeInfo* info = make_code_info(code, nullptr);
    if (!calls.add_enclosing(code, site, info, begin++)) return;
    if (info->kind == CodeKind::own) calls.innermost().site = &own_call_site;
  }
}

void end_frames_of(PyThreadState* thread, CallStack& calls) noexcept {
  calls.end_all_enclosing([thread]() -> uint32_t {
    if (thread != PyThreadState_Get()) return track_of(thread);
    const Track* track = current_track();
    return track != nullptr ? track->id : 0;
  });
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
