// SPDX-License-Identifier: Apache-2.0
// Tracing by sys.monitoring, for CPython >= 3.12: callbacks of the interpreter, called on every
// thread. They are objects of a type with a vectorcall function, which costs less than a built-in
// function.
#include "adapters/python/call_tracer.hpp"

#if PY_VERSION_HEX >= 0x030C0000

#include <cstddef>
#include <iterator>
#include <memory>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "adapters/python/frames.hpp"
#include "adapters/python/gil_substitute.hpp"
#include "adapters/python/interpreter_threads.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

// ---- the stack of a thread ---------------------------------------------------------------------

using Stacks = std::unordered_map<uint64_t, std::unique_ptr<CallStack>>;  // by id of thread state

struct Threads {
  Stacks stacks;
  // Stacks of threads that have a track, by track id. A thread keeps its stack while calls are in
  // progress on it, even if C code gives it another thread state.
  std::unordered_map<uint32_t, CallStack*> by_track;
  std::vector<Stacks> ended;  // of former tracings, while a callback may still use one
  size_t sweep_at = 64;       // number of stacks at which those of ended threads are freed
  GilSubstitute lock;
};

// Never destroyed: a callback may run while the process exits. Not a static in a function, whose
// guard every callback would read.
Threads& g_threads = *new Threads;

// The stack that was looked up last.
struct LastStack {
  uint32_t track = 0;   // id of the track of its thread; 0: the thread has none so far
  uint64_t thread = 0;  // of a thread without a track: id of its thread state; else 0
  CallStack* stack = nullptr;
};
LastStack g_last;

// Frees the stacks of threads that have ended: C code may start a thread for each of a million
// callbacks. Keeps those with calls in progress: their thread may have another thread state by now.
void sweep_stacks(Threads& all) {
  std::unordered_set<uint64_t> live;
  for_each_thread([&live](PyThreadState* thread) { live.insert(thread->id); });
  for (auto at = all.stacks.begin(); at != all.stacks.end();) {
    const bool ended = live.count(at->first) == 0 && at->second->empty();
    if (ended)
      for (auto of = all.by_track.begin(); of != all.by_track.end();)
        of = of->second == at->second.get() ? all.by_track.erase(of) : std::next(of);
    at = ended ? all.stacks.erase(at) : std::next(at);
  }
  g_last = LastStack{};
  all.sweep_at = 2 * all.stacks.size() + 64;
}

// Returns the stack of a thread, creating it if necessary; null if memory is exhausted.
CallStack* stack_of(const PyThreadState* thread) noexcept {
  Threads& all = g_threads;
  const HoldGilSubstitute hold(all.lock);
  try {
    if (all.stacks.size() >= all.sweep_at && g_stacks_in_use == 0) sweep_stacks(all);
    std::unique_ptr<CallStack>& stack = all.stacks[thread->id];
    if (stack == nullptr) stack = std::make_unique<CallStack>();
    return stack.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

PyThreadState* own_thread() noexcept {
  return PyThreadState_Get();
}

FASTPROF_COLD CallStack* find_own_stack() noexcept {
  const PyThreadState* thread = own_thread();
#if defined(Py_GIL_DISABLED)
  return stack_of(thread);
#else
  const Track* track = thread_block()->track;
  if (track == nullptr && g_last.thread == thread->id) return g_last.stack;
  auto& by_track = g_threads.by_track;
  const auto known = track == nullptr ? by_track.end() : by_track.find(track->id);
  CallStack* stack = known != by_track.end() ? known->second : stack_of(thread);
  if (stack == nullptr) return nullptr;
  if (track == nullptr) {
    g_last = LastStack{0, thread->id, stack};
    return stack;
  }
  try {
    by_track[track->id] = stack;
    g_last = LastStack{track->id, 0, stack};
  } catch (const std::bad_alloc&) {
    g_last = LastStack{};
  }
  return stack;
#endif
}

// Returns the calling thread's stack; null if memory is exhausted. A thread is identified by its
// track: the interpreter's functions that return the thread state and its id take 25 of a
// callback's 60 instructions.
FASTPROF_ALWAYS_INLINE CallStack* own_stack() noexcept {
#if !defined(Py_GIL_DISABLED)
  if (FASTPROF_LIKELY(load_relaxed(&g_recorder.tls_static) != 0)) {
    const Track* track = static_thread_block()->track;
    if (FASTPROF_LIKELY(track != nullptr && track->id == g_last.track)) return g_last.stack;
  }
#endif
  return find_own_stack();
}

// Calls visit() for the threads whose frames and stacks may be read: all threads while this one
// holds the GIL; only this one on interpreters without a GIL.
template <class Visit>
void for_each_traceable_thread(Visit&& visit) {
#if defined(Py_GIL_DISABLED)
  visit(own_thread());
#else
  for_each_thread(visit);
#endif
}

// ---- callbacks ---------------------------------------------------------------------------------

// The caller of the function whose start a callback reports. Unknown where frames are objects,
// since reading it would cost more than the record.
CallingInstruction caller_on(PyThreadState* thread) noexcept {
#if FASTPROF_INTERNAL_FRAMES
  const _PyInterpreterFrame* frame = innermost_frame_of(thread);
  return instruction_of(frame == nullptr ? nullptr : frame->previous);
#else
  (void)thread;
  return {nullptr, 0};
#endif
}

PyObject* first_argument_on(PyThreadState* thread) noexcept {
#if FASTPROF_INTERNAL_FRAMES
  _PyInterpreterFrame* frame = innermost_frame_of(thread);
  return frame == nullptr ? nullptr : object_of(frame->localsplus[0]);
#else
  // A borrowed reference: the frame holds the argument.
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
  PyObject* value = frame == nullptr ? nullptr : PyFrame_GetVarString(frame, "self");
  PyErr_Clear();
  Py_XDECREF(value);
  Py_XDECREF(frame);
  return value;
#endif
}

// (code, offset[, exception])
PyObject* on_start(PyObject*, PyObject* const* args, size_t, PyObject*) {
  const HookInUse in_use;
  if (CallStack* calls = own_stack())
    begin_python_call(
        *calls, args[0], [] { return caller_on(own_thread()); }, [] { return PyEval_GetGlobals(); },
        [] { return first_argument_on(own_thread()); });
  Py_RETURN_NONE;
}

// (code, offset, value or exception)
PyObject* on_end(PyObject*, PyObject* const* args, size_t, PyObject*) {
  const HookInUse in_use;
  if (CallStack* calls = own_stack()) calls->end(args[0]);
  Py_RETURN_NONE;
}

PyObject* g_missing = nullptr;  // sys.monitoring.MISSING; only compared

// Returns the method of a function written in C; null for any other callable. first: the call's
// first argument.
FASTPROF_ALWAYS_INLINE const PyMethodDef* method_of(PyObject* callable, PyObject* first) noexcept {
  if (is_c_function(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  if (Py_TYPE(callable) == &PyMethodDescr_Type && first != g_missing)
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  return nullptr;
}

// on_call() for functions written in C. Not inlined: most calls are of Python functions, and would
// save the registers that only this function needs.
__attribute__((noinline)) PyObject* on_c_call(PyObject* const* args, const PyMethodDef* method) {
  const HookInUse in_use;
  if (CallStack* calls = own_stack())
    begin_c_call(
        *calls, method,
        [args] {
          return CallingInstruction{args[0], PyLong_AsLong(args[1]) / 2};
        },
        [args, method] {
          return PyCFunction_Check(args[2]) ? c_function_of(args[2])
                                            : CFunction{method, args[3], nullptr};
        });
  Py_RETURN_NONE;
}

// (code, offset, callable, first argument or MISSING)
PyObject* on_call(PyObject*, PyObject* const* args, size_t, PyObject*) {
  const PyMethodDef* method = method_of(args[2], args[3]);
  if (method != nullptr) return on_c_call(args, method);
  Py_RETURN_NONE;
}

PyObject* on_c_end(PyObject*, PyObject* const* args, size_t, PyObject*) {
  if (const PyMethodDef* method = method_of(args[2], args[3])) {
    const HookInUse in_use;
    if (CallStack* calls = own_stack()) calls->end(method);
  }
  Py_RETURN_NONE;
}

struct Callback {
  PyObject_HEAD vectorcallfunc call;
};

PyTypeObject* callback_type() {
  static PyTypeObject* type = [] {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Callback, call), Py_READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr}};
    static PyType_Slot slots[] = {
        {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
        {Py_tp_members, members},
        {Py_tp_doc, const_cast<char*>("A callback of sys.monitoring that traces calls.")},
        {0, nullptr}};
    static PyType_Spec spec = {
        "fastprof._core.CallCallback", static_cast<int>(sizeof(Callback)), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_VECTORCALL, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

// ---- the tool ----------------------------------------------------------------------------------

struct EventCallback {
  const char* event;
  vectorcallfunc call;
  bool of_c;  // of functions in C alone: not needed by a filter that leaves them out
};
constexpr EventCallback kCallbacks[] = {
    {"PY_START", on_start, false}, {"PY_RESUME", on_start, false}, {"PY_THROW", on_start, false},
    {"PY_RETURN", on_end, false},  {"PY_YIELD", on_end, false},    {"PY_UNWIND", on_end, false},
    {"CALL", on_call, true},       {"C_RETURN", on_c_end, true},   {"C_RAISE", on_c_end, true},
};
// Not 2, which cProfile takes; 0 and 1 are for debuggers and coverage.
constexpr int kToolIds[] = {4, 3};

int g_tool = -1;

// sys.monitoring; new reference, null with an error set.
PyObject* monitoring() {
  PyObject* module = PySys_GetObject("monitoring");
  if (module == nullptr) PyErr_SetString(PyExc_AttributeError, "sys.monitoring");
  Py_XINCREF(module);
  return module;
}

// Registers a callback (null: None) for an event; adds its bit to `events`. False with an error
// set.
bool register_callback(PyObject* module, int tool, const EventCallback& one, bool on,
                       long& events) {
  PyObject* names = PyObject_GetAttrString(module, "events");
  PyObject* number = names == nullptr ? nullptr : PyObject_GetAttrString(names, one.event);
  Py_XDECREF(names);
  if (number == nullptr) return false;
  events |= PyLong_AsLong(number);
  PyObject* callback = Py_None;
  if (on) {
    auto* object = PyObject_New(Callback, callback_type());
    if (object != nullptr) object->call = one.call;
    callback = reinterpret_cast<PyObject*>(object);
  } else {
    Py_INCREF(Py_None);
  }
  PyObject* former = callback == nullptr ? nullptr
                                         : PyObject_CallMethod(module, "register_callback", "iOO",
                                                               tool, number, callback);
  Py_XDECREF(former);
  Py_XDECREF(callback);
  Py_DECREF(number);
  return former != nullptr;
}

bool call_method(PyObject* module, const char* name, const char* format, int tool, long events) {
  PyObject* result = PyObject_CallMethod(module, name, format, tool, events);
  Py_XDECREF(result);
  return result != nullptr;
}

// Takes a tool id; -1 if none is free.
int take_tool(PyObject* module) {
  for (const int tool : kToolIds) {
    PyObject* result = PyObject_CallMethod(module, "use_tool_id", "is", tool, "fastprof");
    Py_XDECREF(result);
    if (result != nullptr) return tool;
    PyErr_Clear();
  }
  return -1;
}

void leave_tool() noexcept {
  if (g_tool < 0) return;
  PyObject* module = monitoring();
  long ignored = 0;
  if (module != nullptr) {
    if (!call_method(module, "set_events", "il", g_tool, 0)) PyErr_Clear();
    for (const EventCallback& one : kCallbacks)
      if (!register_callback(module, g_tool, one, false, ignored)) PyErr_Clear();
    PyObject* result = PyObject_CallMethod(module, "free_tool_id", "i", g_tool);
    Py_XDECREF(result);
  }
  PyErr_Clear();
  Py_XDECREF(module);
  g_tool = -1;
}

}  // namespace

std::string install_hooks() {
  if (g_tool >= 0) return {};
  if (callback_type() == nullptr) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  PyObject* module = monitoring();
  const int tool = module == nullptr ? -1 : take_tool(module);
  if (tool < 0) {
    PyErr_Clear();
    Py_XDECREF(module);
    raise<StateError>(
        "calls cannot be traced: other tools use the ids 3 and 4 of sys.monitoring; end one of "
        "them");
  }
  g_tool = tool;
  g_missing = PyObject_GetAttrString(module, "MISSING");
  Py_XDECREF(g_missing);  // sys.monitoring keeps it
  for_each_traceable_thread([](PyThreadState* thread) {
    if (CallStack* calls = stack_of(thread)) add_frames_of(thread, *calls);
  });
  long events = 0;
  bool done = true;
  for (const EventCallback& one : kCallbacks)
    if (g_c_calls || g_count_c_calls || !one.of_c)
      done = done && register_callback(module, tool, one, true, events);
  done = done && call_method(module, "set_events", "il", tool, events);
  Py_DECREF(module);
  if (!done) {
    PyErr_Clear();
    leave_tool();
    raise<StateError>("calls cannot be traced: sys.monitoring refused the callbacks");
  }
  return {};
}

std::string tracing_gaps(int64_t) {
  return {};
}

std::string remove_hooks() noexcept {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  leave_tool();
  PyErr_Restore(type, value, trace);
  Threads& all = g_threads;
  const HoldGilSubstitute hold(all.lock);
  for_each_traceable_thread([&all](PyThreadState* thread) {
    const auto at = all.stacks.find(thread->id);
    if (at != all.stacks.end()) end_frames_of(thread, *at->second);
  });
#if !defined(Py_GIL_DISABLED)
  // Stacks of threads that have ended.
  for (auto& [id, calls] : all.stacks) calls->end_all_enclosing([] { return 0u; });
#endif
  g_last = LastStack{};
  all.by_track.clear();
  try {
    all.ended.push_back(std::move(all.stacks));
  } catch (const std::bad_alloc&) {
    // These stay for the next tracing, without enclosing calls.
    return {};
  }
  all.stacks = Stacks();
  if (g_stacks_in_use == 0) all.ended.clear();
  return {};
}

bool call_at_return(PyObject*, PyObject*) {
  return false;
}

CallStack* stack_of_this_thread() noexcept {
  return g_tool < 0 ? nullptr : own_stack();
}

void forget_hooks_in_child() noexcept {
  leave_tool();
  Threads& all = g_threads;
  g_last = LastStack{};
  g_stacks_in_use = 0;
  all.by_track.clear();
  all.stacks.clear();
  all.ended.clear();
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END

#endif
