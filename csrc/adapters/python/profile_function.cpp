// SPDX-License-Identifier: Apache-2.0
// Tracing by a C profile function (PyEval_SetProfile), for CPython <= 3.11. The interpreter holds
// one for each thread; its argument is the thread's CallStack.
#include "adapters/python/call_tracer.hpp"

#if PY_VERSION_HEX < 0x030C0000

#include <frameobject.h>

#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "adapters/python/frames.hpp"
#include "adapters/python/gil.hpp"
#include "adapters/python/interpreter_threads.hpp"
#include "adapters/python/new_threads.hpp"
#include "adapters/python/tracing_gaps.hpp"
#include "fastprof/platform/clock.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

// Owned by the thread state, which releases it when its thread ends.
struct ThreadCalls {
  PyObject_HEAD CallStack calls;
  const PyThreadState* state;  // the thread's; only compared
  PyObject* at_return;         // what call_at_return() was given; owned, or null
  ThreadCalls* next_unused;    // in g_unused
};

// Stacks that were released while a hook may still use one (StackInUse). Because they are kept, a
// hook needs no reference of its own, which would cost time in every event.
ThreadCalls* g_unused = nullptr;

PyMethodDef* g_start_new_thread = nullptr;  // of _thread.start_new_thread

bool g_tracing = false;  // between install_hooks() and remove_hooks()
TracingGaps& g_gaps = *new TracingGaps;

// Methods with which Python code ends a thread's profile function. While calls are traced, hooks
// are in their place, so that the tracing resumes.
struct Setter {
  const char* module;
  const char* type;  // null: a function of the module
  const char* name;
  int flags;
  PyCFunction hook;
  PyMethodDef* method;  // null: not found
  PyCFunction call;     // what `method` had
};

template <size_t which>
PyObject* hooked_setter(PyObject* self, PyObject* argument);

constexpr size_t kSetprofile = 0;
Setter g_setters[] = {
    {"sys", nullptr, "setprofile", METH_O, &hooked_setter<kSetprofile>, nullptr, nullptr},
    {"_lsprof", "Profiler", "disable", METH_NOARGS, &hooked_setter<1>, nullptr, nullptr}};

void free_thread_calls(ThreadCalls* thread) {
  thread->calls.~CallStack();
  Py_XDECREF(thread->at_return);
  PyTypeObject* type = Py_TYPE(thread);
  std::free(thread);
  Py_DECREF(type);
}

bool has_frame(const PyThreadState* thread) noexcept {
#if PY_VERSION_HEX >= 0x030B0000
  return thread->cframe->current_frame != nullptr;
#else
  return thread->frame != nullptr;
#endif
}

// Whether a profile object is released because its own thread, which goes on, has another one now.
bool is_replaced(const ThreadCalls* calls) noexcept {
  const PyThreadState* own = PyThreadState_Get();
  return g_tracing && calls->state == own && own->c_profilefunc == nullptr && has_frame(own);
}

void dealloc_thread_calls(PyObject* object) {
  auto* thread = reinterpret_cast<ThreadCalls*>(object);
  if (FASTPROF_UNLIKELY(is_replaced(thread))) {
    CallStack& calls = thread->calls;
    if (!calls.empty() && calls.innermost().key == g_setters[kSetprofile].method)
      calls.end(g_setters[kSetprofile].method);  // its return is not observed
    if (g_gaps.begin(thread->state, platform::monotonic_ns(), object)) {
      Py_SET_REFCNT(object, 1);  // the gap's
      return;
    }
  }
  thread->next_unused = std::exchange(g_unused, thread);
  while (g_stacks_in_use == 0 && g_unused != nullptr)
    free_thread_calls(std::exchange(g_unused, g_unused->next_unused));
}

PyTypeObject* thread_calls_type() {
  static PyTypeObject* type = [] {
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_thread_calls)},
        {Py_tp_doc, const_cast<char*>("The traced calls in progress on a thread.")},
        {0, nullptr}};
    static PyType_Spec spec = {"fastprof._core.CallTracing", static_cast<int>(sizeof(ThreadCalls)),
                               0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

#if FASTPROF_INTERNAL_FRAMES
PyObject* code_of(PyFrameObject* frame) noexcept {
  return reinterpret_cast<PyObject*>(frame->f_frame->f_code);
}
PyObject* globals_of(PyFrameObject* frame) noexcept {
  return frame->f_frame->f_globals;
}
CallingInstruction caller_of(PyFrameObject* frame) noexcept {
  return instruction_of(frame->f_frame->previous);
}
CallingInstruction calling(PyFrameObject* frame) noexcept {
  return instruction_of(frame->f_frame);
}
PyObject* first_argument_of(PyFrameObject* frame) noexcept {
  return frame->f_frame->f_code->co_argcount > 0 ? frame->f_frame->localsplus[0] : nullptr;
}
#else
PyObject* code_of(PyFrameObject* frame) noexcept {
  return reinterpret_cast<PyObject*>(frame->f_code);
}
PyObject* globals_of(PyFrameObject* frame) noexcept {
  return frame->f_globals;
}
CallingInstruction calling(PyFrameObject* frame) noexcept {
  if (frame == nullptr) return {nullptr, 0};
  return {reinterpret_cast<PyObject*>(frame->f_code), frame->f_lasti};
}
CallingInstruction caller_of(PyFrameObject* frame) noexcept {
  return calling(frame->f_back);
}
PyObject* first_argument_of(PyFrameObject* frame) noexcept {
  return frame->f_code->co_argcount > 0 ? frame->f_localsplus[0] : nullptr;
}
#endif

int on_event(PyObject* self, PyFrameObject* frame, int what, PyObject* argument);

// Appends why a thread is not traced to a list of reasons.
void add_reason(std::string& reasons, const std::string& what, const PyThreadState* thread) {
  if (!reasons.empty()) reasons += ", ";
  reasons += what + " on thread " + std::to_string(thread->thread_id);
}

// Describes the owner of a thread's profile function, which is not ours.
std::string owner_of_hook(const PyThreadState* thread) {
  const PyObject* owner = thread->c_profileobj;
  return owner != nullptr ? Py_TYPE(owner)->tp_name : "a C function";
}

// Runs no Python code and allocates no Python memory, because hook_new_thread() runs inside an
// allocator. Returns a new reference, or null.
ThreadCalls* new_thread_calls(const PyThreadState* thread) noexcept {
  auto* object = static_cast<ThreadCalls*>(std::malloc(sizeof(ThreadCalls)));
  if (object == nullptr) return nullptr;
  PyObject_Init(reinterpret_cast<PyObject*>(object), thread_calls_type());
  new (&object->calls) CallStack;
  object->state = thread;
  object->at_return = nullptr;
  object->next_unused = nullptr;
  return object;
}

// Hooks a thread before its first Python frame. Without the audit event of _PyEval_SetProfile,
// which may run Python code: the tracing as a whole was audited.
void hook_new_thread(PyThreadState* thread) {
  ThreadCalls* calls = new_thread_calls(thread);
  if (calls == nullptr) return;
  thread->c_profileobj = reinterpret_cast<PyObject*>(calls);
  thread->c_profilefunc = on_event;
  if (thread->tracing == 0) thread->cframe->use_tracing = 255;
}

// Returns false, with no error set, if it could not be installed.
bool hook_thread(PyThreadState* thread, bool with_frames) {
  ThreadCalls* object = new_thread_calls(thread);
  if (object == nullptr) return false;
  if (with_frames) add_frames_of(thread, object->calls);
  const int failed = _PyEval_SetProfile(thread, on_event, reinterpret_cast<PyObject*>(object));
  Py_DECREF(object);
  if (failed != 0) PyErr_Clear();  // an audit hook refused
  return failed == 0;
}

// Hooks the threads that have no profile function. Names those that have another one. refused:
// receives whether an audit hook refused one.
std::string hook_all_threads(bool with_frames, bool& refused) {
  std::string others;
  for_each_thread([&](PyThreadState* thread) {
    if (thread->c_profilefunc == on_event) return;
    if (thread->c_profilefunc != nullptr) {
      add_reason(others, owner_of_hook(thread), thread);
    } else if (!hook_thread(thread, with_frames)) {
      refused = true;
      add_reason(others, "an audit hook refuses sys.setprofile", thread);
    }
  });
  return others;
}

// Calls a function, if any, and releases it. Keeps the error that is set.
void call_and_release(PyObject* function) noexcept {
  if (function == nullptr) return;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* result = sleep_if_ended([&] { return PyObject_CallNoArgs(function); });
  if (result == nullptr) PyErr_WriteUnraisable(function);
  Py_XDECREF(result);
  Py_DECREF(function);
  PyErr_Restore(type, value, trace);
}

// ---- resumption --------------------------------------------------------------------------------

// Traces the calling thread again if it has no profile function any more. since_ns: when the call
// began that took it away.
void resume_this_thread(int64_t since_ns) noexcept {
  PyThreadState* own = PyThreadState_Get();
  TracingGap* gap = g_tracing && own->c_profilefunc == nullptr ? g_gaps.open_gap(own) : nullptr;
  if (gap == nullptr || gap->stack == nullptr) return;
  PyObject* stack = std::exchange(gap->stack, nullptr);
  const int failed = _PyEval_SetProfile(own, on_event, stack);
  if (failed != 0) PyErr_Clear();  // an audit hook refused
  Py_DECREF(stack);
  gap = g_gaps.open_gap(own);  // an audit hook may run Python code
  if (failed == 0 && gap != nullptr) g_gaps.end(gap, platform::monotonic_ns(), since_ns);
}

template <size_t which>
PyObject* hooked_setter(PyObject* self, PyObject* argument) {
  const int64_t since_ns = platform::monotonic_ns();
  PyObject* result = g_setters[which].call(self, argument);
  if (result != nullptr) resume_this_thread(since_ns);
  return result;
}

PyMethodDef* find_setter(const Setter& setter) noexcept {
  PyObject* module = PyImport_ImportModule(setter.module);
  PyObject* owner = module;
  if (module != nullptr && setter.type != nullptr)
    owner = PyObject_GetAttrString(module, setter.type);
  PyObject* found = owner == nullptr ? nullptr : PyObject_GetAttrString(owner, setter.name);
  PyMethodDef* method = nullptr;
  if (found != nullptr && PyCFunction_CheckExact(found))
    method = reinterpret_cast<PyCFunctionObject*>(found)->m_ml;
  else if (found != nullptr && Py_IS_TYPE(found, &PyMethodDescr_Type))
    method = reinterpret_cast<PyMethodDescrObject*>(found)->d_method;
  PyErr_Clear();
  Py_XDECREF(found);
  if (owner != module) Py_XDECREF(owner);
  Py_XDECREF(module);
  return method != nullptr && method->ml_flags == setter.flags ? method : nullptr;
}

void hook_setters(bool on) noexcept {
  for (Setter& setter : g_setters) {
    if (setter.method == nullptr) {
      setter.method = on ? find_setter(setter) : nullptr;
      if (setter.method == nullptr) continue;
      setter.call = setter.method->ml_meth;
    }
    setter.method->ml_meth = on ? setter.hook : setter.call;
  }
}

// ---- events ------------------------------------------------------------------------------------
//
// on_event() jumps to one function per kind of event. Rare cases are out of line, so that the
// common one saves no registers.

CallStack& calls_of(PyObject* self) noexcept {
  return reinterpret_cast<ThreadCalls*>(self)->calls;
}

__attribute__((noinline)) int on_call(PyObject* self, PyFrameObject* frame) {
  begin_python_call(
      calls_of(self), code_of(frame), [frame] { return caller_of(frame); },
      [frame] { return globals_of(frame); }, [frame] { return first_argument_of(frame); });
  return 0;
}

FASTPROF_COLD int on_awaited_return(PyObject* self) {
  call_and_release(std::exchange(reinterpret_cast<ThreadCalls*>(self)->at_return, nullptr));
  return 0;
}

__attribute__((noinline)) int on_return(PyObject* self, PyFrameObject* frame) {
  if (FASTPROF_UNLIKELY(calls_of(self).end(code_of(frame)))) return on_awaited_return(self);
  return 0;
}

__attribute__((noinline)) int on_c_call(PyObject* self, PyFrameObject* frame, PyObject* function) {
  if (is_c_function(function))
    begin_c_call(
        calls_of(self), c_function_of(function).method, [frame] { return calling(frame); },
        [function] { return c_function_of(function); });
  return 0;
}

// A new thread already has its state, and cannot run before this thread releases the GIL.
FASTPROF_COLD int on_thread_started() {
  bool refused = false;
  hook_all_threads(false, refused);
  return 0;
}

__attribute__((noinline)) int on_c_return(PyObject* self, PyObject* function) {
  if (!is_c_function(function)) return 0;
  const PyMethodDef* method = c_function_of(function).method;
  calls_of(self).end(method);
  if (FASTPROF_UNLIKELY(method == g_start_new_thread)) return on_thread_started();
  return 0;
}

int on_event(PyObject* self, PyFrameObject* frame, int what, PyObject* argument) {
  switch (what) {
    case PyTrace_CALL:
      return on_call(self, frame);
    case PyTrace_RETURN:
      return on_return(self, frame);
    case PyTrace_C_CALL:
      return on_c_call(self, frame, argument);
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
      return on_c_return(self, argument);
    default:
      return 0;
  }
}

}  // namespace

std::string install_hooks() {
  if (thread_calls_type() == nullptr) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  if (g_start_new_thread == nullptr) {
    PyObject* module = PyImport_ImportModule("_thread");
    PyObject* start =
        module == nullptr ? nullptr : PyObject_GetAttrString(module, "start_new_thread");
    if (start != nullptr && PyCFunction_Check(start))
      g_start_new_thread = reinterpret_cast<PyCFunctionObject*>(start)->m_ml;
    PyErr_Clear();
    Py_XDECREF(start);
    Py_XDECREF(module);
  }
  hook_setters(true);
  g_tracing = true;
  bool refused = false;
  std::string others = hook_all_threads(true, refused);
  if (!refused) watch_new_threads(hook_new_thread);
  return others;
}

bool call_at_return(PyObject* code, PyObject* function) {
  PyThreadState* own = PyThreadState_Get();
  if (own->c_profilefunc != on_event) return false;
  auto* thread = reinterpret_cast<ThreadCalls*>(own->c_profileobj);
  if (thread->at_return != nullptr || !thread->calls.await_end(code)) return false;
  Py_INCREF(function);
  thread->at_return = function;
  return true;
}

std::string remove_hooks() noexcept {
  std::string others;
  std::vector<PyObject*> waiting;  // called once no thread is looked at any more
  g_tracing = false;
  hook_setters(false);
  end_watch_of_new_threads();
  for_each_thread([&](PyThreadState* thread) {
    if (thread->c_profilefunc == on_event) {
      end_frames_of(thread, reinterpret_cast<ThreadCalls*>(thread->c_profileobj)->calls);
      PyObject*& at_return = reinterpret_cast<ThreadCalls*>(thread->c_profileobj)->at_return;
      if (at_return != nullptr) waiting.push_back(std::exchange(at_return, nullptr));
      PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
      PyErr_Fetch(&type, &value, &trace);
      if (_PyEval_SetProfile(thread, nullptr, nullptr) != 0) PyErr_Clear();
      PyErr_Restore(type, value, trace);
    } else if (TracingGap* gap = g_gaps.open_gap(thread)) {
      if (gap->stack != nullptr) end_frames_of(thread, calls_of(gap->stack));
    } else if (thread->c_profilefunc != nullptr) {
      add_reason(others, owner_of_hook(thread), thread);
    }
  });
  for (const TracingGap& gap : g_gaps.take()) Py_XDECREF(gap.stack);
  for (PyObject* function : waiting) call_and_release(function);
  return others;
}

CallStack* stack_of_this_thread() noexcept {
  const PyThreadState* thread = PyThreadState_Get();
  const bool traced = thread->c_profilefunc == on_event && thread->tracing == 0;
  return traced ? &calls_of(thread->c_profileobj) : nullptr;
}

std::string tracing_gaps(int64_t since_ns) {
  return g_gaps.text(since_ns);
}

void forget_hooks_in_child() noexcept {
  g_tracing = false;
  hook_setters(false);
  for (const TracingGap& gap : g_gaps.take()) Py_XDECREF(gap.stack);
  end_watch_of_new_threads();
  g_stacks_in_use = 0;  // of threads that are not there
  PyThreadState* own = PyThreadState_Get();
  if (own->c_profilefunc == on_event && _PyEval_SetProfile(own, nullptr, nullptr) != 0)
    PyErr_Clear();
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END

#endif
