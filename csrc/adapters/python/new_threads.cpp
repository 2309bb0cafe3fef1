// SPDX-License-Identifier: Apache-2.0
// See new_threads.hpp. The hooks, in place only while calls are traced:
//   3.11   The stack of Python frames of a thread is memory of the arena allocator, allocated for
//          its first frame. The hook is an arena allocator that calls the former one.
//   3.10   Every frame is evaluated through a pointer of the interpreter. The hook is a function
//          that compares two words and jumps to the former one.
#include "adapters/python/new_threads.hpp"

#include "adapters/python/interpreter_threads.hpp"

#if PY_VERSION_HEX < 0x030C0000

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

void (*g_started)(PyThreadState*) = nullptr;  // null: not watched
uint64_t g_newest = 0;                        // id of the newest thread state at the start

// Whether the hook is installed. If another tool has installed its own on top, ours stays and only
// calls the original: removing it would remove the other tool's, and installing a second one would
// make a cycle.
bool g_in_place = false;

FASTPROF_ALWAYS_INLINE bool is_new(const PyThreadState* thread) noexcept {
  return thread->c_profilefunc == nullptr && thread->id > g_newest &&
         thread->interp == PyInterpreterState_Main();
}

#if PY_VERSION_HEX >= 0x030B0000

PyObjectArenaAllocator g_former;

void* allocate(void* context, size_t size) {
  // Null without the GIL.
  PyThreadState* thread = g_started == nullptr ? nullptr : _PyThreadState_UncheckedGet();
  if (thread != nullptr && thread->datastack_chunk == nullptr && is_new(thread)) g_started(thread);
  return g_former.alloc(context, size);
}

void release(void* context, void* memory, size_t size) {
  g_former.free(context, memory, size);
}

bool hook_is_on_top() noexcept {
  PyObjectArenaAllocator current;
  PyObject_GetArenaAllocator(&current);
  return current.alloc == allocate;
}

void place_hook() noexcept {
  PyObject_GetArenaAllocator(&g_former);
  PyObjectArenaAllocator own = {g_former.ctx, allocate, release};
  PyObject_SetArenaAllocator(&own);
}

void take_hook_away() noexcept {
  PyObject_SetArenaAllocator(&g_former);
}

#else

_PyFrameEvalFunction g_former = nullptr;

PyObject* evaluate(PyThreadState* thread, PyFrameObject* frame, int thrown) {
  if (FASTPROF_UNLIKELY(thread->c_profilefunc == nullptr) && g_started != nullptr && is_new(thread))
    g_started(thread);
  return g_former(thread, frame, thrown);
}

bool hook_is_on_top() noexcept {
  return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Main()) == evaluate;
}

void place_hook() noexcept {
  g_former = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Main());
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Main(), evaluate);
}

void take_hook_away() noexcept {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Main(), g_former);
}

#endif

}  // namespace

void watch_new_threads(void (*started)(PyThreadState*)) noexcept {
  g_newest = 0;
  for_each_thread([](const PyThreadState* thread) {
    if (thread->id > g_newest) g_newest = thread->id;
  });
  g_started = started;
  if (g_in_place) return;
  place_hook();
  g_in_place = true;
}

void end_watch_of_new_threads() noexcept {
  g_started = nullptr;
  if (!g_in_place || !hook_is_on_top()) return;
  take_hook_away();
  g_in_place = false;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END

#endif
