// SPDX-License-Identifier: Apache-2.0
// Hooks into the steps of tasks: see task_switches.hpp.
#include "adapters/python/task_switches.hpp"

#include <cstring>
#include <new>
#include <vector>

#include "adapters/python/followed_work.hpp"
#include "adapters/python/gil.hpp"
#include "adapters/python/known_tasks.hpp"
#include "adapters/python/thread_name.hpp"
#include "fastprof/recorder/hot_path/task_switch.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

// Where the two functions are called from, and the original functions. Guarded by the GIL; written
// once.
PyTypeObject* g_step_type = nullptr;
ternaryfunc g_step = nullptr;
PyTypeObject* g_task_type = nullptr;
initproc g_init = nullptr;
PyMethodDef* g_wakeup_def = nullptr;
PyCFunction g_wakeup = nullptr;

uint32_t g_users = 0;
bool g_hooked = false;

// The task whose step began before the recording; 0: none.
thread_local uint32_t t_noted = 0;
// Tasks entered by enter_task() on this thread, outermost first, each with the task that ran before
// it.
struct Before {
  const Site* site;
  TaskWord word;
};
thread_local std::vector<Before>* t_entered = nullptr;

// Whether this thread records task switches now.
bool records() noexcept {
  State* s = state();
  const uint32_t mask = load_relaxed(&s->mask);
  if ((mask & (category::task | mask_bit::special)) == 0) return false;
  return wanted(s, thread_block(), category::task);
}

// The task that the thread has run until now.
Before before_step() noexcept {
  const TaskWord word = task_of_this_thread();
  const uint32_t noted = t_noted;
  t_noted = 0;
  // The step that was noted is over, because another one begins.
  if (word.id == 0 || word.id == noted) return {&task_switch_site, {}};
  return {thread_block()->track->task_site, word};
}

void go_back(const Before& before) noexcept {
  record_task_switch(before.site, before.word);
}

template <class Call>
FASTPROF_ALWAYS_INLINE PyObject* run_step(PyObject* task, Call call) noexcept {
  const ContextSessions sessions;
  if (!records()) return call();
  name_thread_once();
  const Before before = before_step();
  if (!record_task(task, false)) return call();
  PyObject* result = call();
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  if (FASTPROF_UNLIKELY(result == nullptr)) PyErr_Fetch(&type, &value, &trace);
  if (is_task_done(task)) record_task(task, true);
  go_back(before);
  if (FASTPROF_UNLIKELY(result == nullptr)) PyErr_Restore(type, value, trace);
  return result;
}

#if PY_VERSION_HEX >= 0x030C0000
// An eager task takes its first step while it is constructed.
int hooked_init(PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
  const auto init = [&] { return sleep_if_ended([&] { return g_init(self, args, kwargs); }); };
  static PyObject* eager_start = PyUnicode_InternFromString("eager_start");
  PyObject* eager = kwargs == nullptr ? nullptr : PyDict_GetItemWithError(kwargs, eager_start);
  if (FASTPROF_LIKELY(eager == nullptr || eager == Py_False) || !records()) return init();
  name_thread_once();
  const Before before = before_step();
  PyObject* coroutine =
      PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : PyDict_GetItemString(kwargs, "coro");
  if (!record_new_task(self, coroutine)) return init();
  const int result = init();
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  if (result != 0) PyErr_Fetch(&type, &value, &trace);
  if (result != 0 || is_task_done(self)) record_task(self, true);
  go_back(before);
  if (result != 0) PyErr_Restore(type, value, trace);
  return result;
}

#endif

PyObject* task_of_step(PyObject* step) noexcept {
  // PyObject_HEAD, then the task: learn_task_steps() has verified this layout.
  PyObject* task = nullptr;
  std::memcpy(&task, reinterpret_cast<const char*>(step) + sizeof(PyObject), sizeof task);
  return task;
}

PyObject* hooked_step(PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
  PyObject* task = task_of_step(self);
  if (FASTPROF_UNLIKELY(task == nullptr))
    return sleep_if_ended([&] { return g_step(self, args, kwargs); });
  return run_step(task, [&] { return sleep_if_ended([&] { return g_step(self, args, kwargs); }); });
}

PyObject* hooked_wakeup(PyObject* self, PyObject* future) noexcept {
  return run_step(self, [&] { return sleep_if_ended([&] { return g_wakeup(self, future); }); });
}

// Installs the hooks if g_users > 0, and otherwise restores the original functions.
void apply_hooks() noexcept {
  const bool hook = g_users != 0 && g_step != nullptr;
  if (hook == g_hooked) return;
  g_hooked = hook;
  __atomic_store_n(&g_step_type->tp_call, hook ? hooked_step : g_step, __ATOMIC_RELEASE);
  __atomic_store_n(&g_wakeup_def->ml_meth, hook ? hooked_wakeup : g_wakeup, __ATOMIC_RELEASE);
#if PY_VERSION_HEX >= 0x030C0000
  __atomic_store_n(&g_task_type->tp_init, hook ? hooked_init : g_init, __ATOMIC_RELEASE);
#endif
}

}  // namespace

bool learn_task_steps(PyObject* task, PyObject* step, PyObject* wakeup) noexcept {
  if (g_step != nullptr) return true;
  PyTypeObject* type = Py_TYPE(step);
  if (type->tp_call == nullptr || type->tp_call == hooked_step ||
      type->tp_basicsize < static_cast<Py_ssize_t>(sizeof(PyObject) + sizeof(PyObject*)) ||
      task_of_step(step) != task)
    return false;
  if (!PyCFunction_CheckExact(wakeup) || PyCFunction_GetSelf(wakeup) != task) return false;
  PyMethodDef* def = reinterpret_cast<PyCFunctionObject*>(wakeup)->m_ml;
  if (def->ml_flags != METH_O) return false;
  g_step_type = type;
  Py_INCREF(type);
  g_task_type = Py_TYPE(task);
  Py_INCREF(g_task_type);
  learn_task_state(g_task_type);
  g_init = g_task_type->tp_init;
  g_wakeup_def = def;
  g_wakeup = def->ml_meth;
  g_step = type->tp_call;
  apply_hooks();
  return true;
}

bool task_steps_known() noexcept {
  return g_step != nullptr;
}

void start_task_switches() noexcept {
  ++g_users;
  apply_hooks();
}

void stop_task_switches() noexcept {
  --g_users;
  apply_hooks();
  if (g_users == 0) forget_tasks();
}

void forget_task_switches_in_child() noexcept {
  g_users = 0;
  apply_hooks();
  forget_tasks();
}

void enter_task(PyObject* task) noexcept {
  if (t_entered == nullptr) t_entered = new (std::nothrow) std::vector<Before>;
  if (t_entered == nullptr) return;
  name_thread_once();
  const Before before = before_step();
  try {
    t_entered->push_back(before);
  } catch (const std::bad_alloc&) {
    return;
  }
  if (records()) record_task(task, false);
}

void leave_task(PyObject* task, bool ended) noexcept {
  if (ended) record_task(task, true);
  if (t_entered == nullptr || t_entered->empty()) return;
  const Before before = t_entered->back();
  t_entered->pop_back();
  go_back(before);
}

void note_running_task(PyObject* task) noexcept {
  t_noted = 0;
  if (task == nullptr) {
    if (task_of_this_thread().id != 0) record_task_switch(&task_switch_site, {});
    return;
  }
  name_thread_once();
  if (record_task(task, false)) t_noted = task_of_this_thread().id;
}

void running_task_left(PyObject* task, bool ended) noexcept {
  const bool here = t_noted != 0 && task_of_this_thread().id == t_noted;
  t_noted = 0;
  if (g_users != 0 && (ended || is_task_done(task))) record_task(task, true);
  if (here) record_task_switch(&task_switch_site, {});
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
