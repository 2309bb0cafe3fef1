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
#include "adapters/python/interpreter_threads.hpp"
#include "adapters/python/new_threads.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

// Owned by the thread state, which releases it when its thread ends.
struct ThreadCalls {
  PyObject_HEAD CallStack calls;
  PyObject* at_return;  // what call_at_return() was given; owned, or null
};

PyMethodDef* g_start_new_thread = nullptr;  // of _thread.start_new_thread

void dealloc_thread_calls(PyObject* object) {
  auto* thread = reinterpret_cast<ThreadCalls*>(object);
  thread->calls.~CallStack();
  Py_XDECREF(thread->at_return);
  PyTypeObject* type = Py_TYPE(object);
  std::free(object);
  Py_DECREF(type);
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

// The owner of a thread's profile function, which is not ours.
std::string owner_of_hook(const PyThreadState* thread) {
  const PyObject* owner = thread->c_profileobj;
  return owner != nullptr ? Py_TYPE(owner)->tp_name : "a C function";
}

// Runs no Python code, and takes no memory from Python: hook_new_thread() runs in an allocator of
// it. New reference, or null.
ThreadCalls* new_thread_calls() noexcept {
  auto* object = static_cast<ThreadCalls*>(std::malloc(sizeof(ThreadCalls)));
  if (object == nullptr) return nullptr;
  PyObject_Init(reinterpret_cast<PyObject*>(object), thread_calls_type());
  new (&object->calls) CallStack;
  object->at_return = nullptr;
  return object;
}

// Hooks a thread before its first Python frame. Without the audit event of _PyEval_SetProfile,
// which may run Python code: the tracing as a whole was audited.
void hook_new_thread(PyThreadState* thread) {
  ThreadCalls* calls = new_thread_calls();
  if (calls == nullptr) return;
  thread->c_profileobj = reinterpret_cast<PyObject*>(calls);
  thread->c_profilefunc = on_event;
  if (thread->tracing == 0) thread->cframe->use_tracing = 255;
}

// Returns false, with no error set, if it could not be installed.
bool hook_thread(PyThreadState* thread, bool with_frames) {
  ThreadCalls* object = new_thread_calls();
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
  PyObject* result = PyObject_CallNoArgs(function);
  if (result == nullptr) PyErr_WriteUnraisable(function);
  Py_XDECREF(result);
  Py_DECREF(function);
  PyErr_Restore(type, value, trace);
}

int on_event(PyObject* self, PyFrameObject* frame, int what, PyObject* argument) {
  CallStack& calls = reinterpret_cast<ThreadCalls*>(self)->calls;
  switch (what) {
    case PyTrace_CALL:
      Py_INCREF(self);  // a finalizer may run, and end the tracing
      begin_python_call(
          calls, code_of(frame), [frame] { return globals_of(frame); },
          [frame] { return first_argument_of(frame); });
      Py_DECREF(self);
      break;
    case PyTrace_RETURN:
      if (FASTPROF_UNLIKELY(calls.end(code_of(frame))))
        call_and_release(std::exchange(reinterpret_cast<ThreadCalls*>(self)->at_return, nullptr));
      break;
    case PyTrace_C_CALL:
      Py_INCREF(self);
      if (PyCFunction_Check(argument))
        begin_c_call(calls, reinterpret_cast<PyCFunctionObject*>(argument)->m_ml,
                     [argument] { return c_function_of(argument); });
      Py_DECREF(self);
      break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
      if (PyCFunction_Check(argument)) {
        const PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(argument)->m_ml;
        calls.end(method);
        // A new thread has its state already, and cannot run before this one lets the GIL go.
        if (FASTPROF_UNLIKELY(method == g_start_new_thread)) {
          bool refused = false;
          hook_all_threads(false, refused);
        }
      }
      break;
    default:
      break;
  }
  return 0;
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
    } else if (thread->c_profilefunc != nullptr) {
      add_reason(others, owner_of_hook(thread), thread);
    }
  });
  for (PyObject* function : waiting) call_and_release(function);
  return others;
}

void forget_hooks_in_child() noexcept {
  end_watch_of_new_threads();
  PyThreadState* own = PyThreadState_Get();
  if (own->c_profilefunc == on_event && _PyEval_SetProfile(own, nullptr, nullptr) != 0)
    PyErr_Clear();
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END

#endif
