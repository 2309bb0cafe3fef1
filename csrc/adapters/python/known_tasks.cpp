// SPDX-License-Identifier: Apache-2.0
// Ids and names of tasks: see known_tasks.hpp. Tasks are not kept alive: a weak reference detects
// that another task was created at the same address.
#include "adapters/python/known_tasks.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "adapters/python/gil.hpp"
#include "adapters/python/gil_substitute.hpp"
#include "adapters/python/name_bytes.hpp"
#include "adapters/python/weak_reference.hpp"
#include "fastprof/recorder/hot_path/intern.hpp"
#include "fastprof/recorder/hot_path/task_switch.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

struct KnownTask {
  PyObject* reference = nullptr;  // weak, without a callback
  const Site* site = nullptr;     // a session name; valid while `epoch` is current
  uint64_t epoch = 0;             // State::name_epoch at the lookup
  uint32_t id = 0;
  uint32_t number = 0;
  bool is_new = false;  // named after its coroutine, because it was being constructed
};

using Tasks = std::unordered_map<PyObject*, KnownTask>;

Tasks& known_tasks() {
  static auto* only = new Tasks;  // never destroyed: threads may run tasks at exit
  return *only;
}
// How a task of this type or a subclass reports its state, without a lookup of the attribute
// `_state`, which takes 250 instructions per step; null: unknown. And the name of the state of a
// task that has not ended.
PyTypeObject* g_task_type = nullptr;
const PyGetSetDef* g_task_state = nullptr;
PyObject* g_pending = nullptr;

size_t g_sweep_at = 1024;  // number of entries at which those of dead tasks are removed

GilSubstitute g_tasks_lock;

bool is_alive(PyObject* reference) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return !refers_to(reference, nullptr);
#else
  return !refers_to(reference, Py_None);
#endif
}

// Returns the text of a str object and releases the object; empty if it is null or not a str.
std::string take_text(PyObject* text) {
  std::string storage, result;
  std::string_view bytes;
  if (text != nullptr && PyUnicode_Check(text) && name_bytes(text, storage, bytes)) result = bytes;
  PyErr_Clear();
  Py_XDECREF(text);
  return result;
}

// "Task-12" -> 12; 0 for any other name.
uint32_t default_number(std::string_view name) noexcept {
  constexpr std::string_view prefix = "Task-";
  if (name.size() <= prefix.size() || name.substr(0, prefix.size()) != prefix) return 0;
  uint64_t number = 0;
  for (const char digit : name.substr(prefix.size())) {
    if (digit < '0' || digit > '9') return 0;
    number = number * 10 + static_cast<uint64_t>(digit - '0');
    if (number > TaskWord::kMaxNumber) return 0;
  }
  return static_cast<uint32_t>(number);
}

// The qualified name of a coroutine; empty for none.
std::string name_of_coroutine(PyObject* coroutine) {
  if (coroutine == nullptr || coroutine == Py_None) return {};
  std::string name = take_text(PyObject_GetAttrString(coroutine, "__qualname__"));
  return name.empty() ? Py_TYPE(coroutine)->tp_name : name;
}

// Returns the name to record for a task, and in `number` that of a default name ("Task-12"). A
// default name is not informative, so the coroutine's name is returned instead; empty if the
// coroutine no longer exists, as after the end of the task.
std::string name_of_task(PyObject* task, uint32_t& number) {
  number = 0;
  PyObject* given = PyObject_CallMethod(task, "get_name", nullptr);
  if (given == nullptr) {  // a task of trio
    PyErr_Clear();
    return take_text(PyObject_GetAttrString(task, "name"));
  }
  const std::string name = take_text(given);
  number = default_number(name);
  // Some versions of CPython name a task "None" if a task factory gave it no name.
  if (number == 0 && name != "None") return name;
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
  // get_coro() of CPython 3.12.1 and older crashes for an eager task that has ended.
  PyObject* coroutine = PyObject_GetAttrString(task, "_coro");
#else
  PyObject* coroutine = PyObject_CallMethod(task, "get_coro", nullptr);
#endif
  if (coroutine == nullptr) PyErr_Clear();
  std::string shown = name_of_coroutine(coroutine);
  Py_XDECREF(coroutine);
  return shown;
}

void remove_dead(Tasks& tasks) noexcept {
  for (auto at = tasks.begin(); at != tasks.end();) {
    if (is_alive(at->second.reference)) {
      ++at;
    } else {
      Py_DECREF(at->second.reference);
      at = tasks.erase(at);
    }
  }
  g_sweep_at = std::max<size_t>(1024, 2 * tasks.size());
}

// Returns the entry of a task, creating it if necessary.
KnownTask& known(PyObject* task) {
  Tasks& tasks = known_tasks();
  const auto found = tasks.find(task);
  if (FASTPROF_LIKELY(found != tasks.end())) {
    if (FASTPROF_LIKELY(refers_to(found->second.reference, task))) return found->second;
    Py_DECREF(found->second.reference);
    tasks.erase(found);
  }
  if (tasks.size() >= g_sweep_at) remove_dead(tasks);
  KnownTask fresh;
  fresh.reference = PyWeakref_NewRef(task, nullptr);
  if (fresh.reference == nullptr) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  fresh.id = new_task_id();
  return tasks.emplace(task, fresh).first->second;
}

void take_name(KnownTask& entry, NameUse& use, const std::string& name) noexcept {
  entry.site = session_site(use, task_switch_site, name);
  entry.epoch = load_relaxed(&state()->name_epoch);
}

void forget(PyObject* task) noexcept {
  Tasks& tasks = known_tasks();
  const auto found = tasks.find(task);
  if (found == tasks.end()) return;
  Py_DECREF(found->second.reference);
  tasks.erase(found);
}

}  // namespace

bool record_task(PyObject* task, bool ended) noexcept {
  State* s = state();
  const HoldGilSubstitute hold(g_tasks_lock);
  try {
    KnownTask& kept = known(task);
    {
      NameUse use;
      if (FASTPROF_LIKELY(!ended && !kept.is_new && kept.site != nullptr && use.begin(s) &&
                          kept.epoch == load_relaxed(&s->name_epoch))) {
        record_task_switch(kept.site, {kept.id, kept.number, false});
        return true;
      }
    }
    KnownTask entry = kept;  // the rest may run Python code, which may move or remove it
    // Read the name again at the end: many tasks are named after their first step.
    const std::string name = sleep_if_ended([&] { return name_of_task(task, entry.number); });
    entry.is_new = false;
    {
      NameUse use;
      const bool known_before =
          entry.site != nullptr && use.begin(s) && entry.epoch == load_relaxed(&s->name_epoch);
      if (!name.empty() || !known_before) take_name(entry, use, name);
      record_task_switch(entry.site, {entry.id, entry.number, ended});
    }
    if (ended)
      forget(task);
    else
      known(task) = entry;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool record_new_task(PyObject* task, PyObject* coroutine) noexcept {
  const HoldGilSubstitute hold(g_tasks_lock);
  try {
    const std::string name = sleep_if_ended([&] { return name_of_coroutine(coroutine); });
    KnownTask entry = known(task);
    {
      NameUse use;
      take_name(entry, use, name);
      entry.is_new = true;
      record_task_switch(entry.site, {entry.id, 0, false});
    }
    known(task) = entry;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void learn_task_state(PyTypeObject* type) noexcept {
  PyObject* descriptor = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "_state");
  PyObject* pending = PyUnicode_InternFromString("PENDING");
  if (descriptor != nullptr && pending != nullptr && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
    g_task_state = reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset;
    g_task_type = type;
    g_pending = pending;
    Py_INCREF(type);  // and the references to both objects are kept: the pointers lead into them
    return;
  }
  PyErr_Clear();
  Py_XDECREF(descriptor);
  Py_XDECREF(pending);
}

bool is_task_done(PyObject* task) noexcept {
  static PyObject* attribute = PyUnicode_InternFromString("_state");
  const bool is_known = g_task_type != nullptr && PyObject_TypeCheck(task, g_task_type);
  PyObject* state = FASTPROF_LIKELY(is_known)
                        ? g_task_state->get(task, g_task_state->closure)
                        : sleep_if_ended([&] { return PyObject_GetAttr(task, attribute); });
  if (state == nullptr) {
    PyErr_Clear();
    return false;
  }
  const bool pending =
      state == g_pending ||
      (PyUnicode_Check(state) && PyUnicode_CompareWithASCIIString(state, "PENDING") == 0);
  Py_DECREF(state);
  return !pending;
}

void forget_tasks() noexcept {
  const HoldGilSubstitute hold(g_tasks_lock);
  Tasks gone;
  gone.swap(known_tasks());
  for (const auto& [task, entry] : gone) Py_DECREF(entry.reference);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
