// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/interpreter.hpp"

#include <Python.h>
#include <dlfcn.h>
#include <frameobject.h>
#include <unistd.h>

#include "adapters/python/frames.hpp"
#include "fastprof/platform/symbols.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr size_t kWord = sizeof(uintptr_t);
constexpr size_t kStateBytes = 1024;  // of an interpreter's state in which its threads are

uintptr_t address_of(const void* object) noexcept {
  return reinterpret_cast<uintptr_t>(object);
}

void set_frame(Layout* layout) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  // f_executable (tagged from 3.14 on), previous, f_funcobj, f_globals, f_builtins, f_locals,
  // frame_obj, instr_ptr; from 3.14 on stackpointer, and without a GIL a 32-bit index of the
  // thread's bytecode; a 16-bit offset, and the owner.
  layout->frame_code = 0;
  layout->frame_previous = kWord;
  layout->frame_instruction = 7 * kWord;
#if PY_VERSION_HEX < 0x030E0000
  layout->frame_owner = 8 * kWord + 6;
#elif defined(Py_GIL_DISABLED)
  layout->frame_owner = 9 * kWord + 6;
#else
  layout->frame_owner = 9 * kWord + 2;
#endif
  layout->frame_bytes = (layout->frame_owner / kWord + 1) * kWord;
#elif PY_VERSION_HEX >= 0x030B0000
  layout->frame_code = offsetof(_PyInterpreterFrame, f_code);
  layout->frame_previous = offsetof(_PyInterpreterFrame, previous);
  layout->frame_instruction = offsetof(_PyInterpreterFrame, prev_instr);
  layout->frame_owner = offsetof(_PyInterpreterFrame, owner);
#if PY_VERSION_HEX < 0x030C0000
  layout->frame_entry = offsetof(_PyInterpreterFrame, is_entry);
#endif
  layout->frame_bytes = offsetof(_PyInterpreterFrame, localsplus);
  static_assert(offsetof(_PyInterpreterFrame, localsplus) <= kMaxFrameBytes);
#else
  layout->frame_code = offsetof(PyFrameObject, f_code);
  layout->frame_previous = offsetof(PyFrameObject, f_back);
  layout->frame_instruction = offsetof(PyFrameObject, f_lasti);
  layout->frame_bytes = offsetof(PyFrameObject, f_lasti) + sizeof(int);
  static_assert(offsetof(PyFrameObject, f_lasti) + sizeof(int) <= kMaxFrameBytes);
#endif
}

void set_thread(Layout* layout) noexcept {
  layout->next = offsetof(PyThreadState, next);
  layout->interpreter = offsetof(PyThreadState, interp);
  layout->id = offsetof(PyThreadState, id);
  layout->pthread = offsetof(PyThreadState, thread_id);
#if PY_VERSION_HEX >= 0x030D0000
  layout->frame = offsetof(PyThreadState, current_frame);
#elif PY_VERSION_HEX >= 0x030B0000
  layout->c_frame = offsetof(PyThreadState, cframe);
  layout->frame = offsetof(_PyCFrame, current_frame);
#else
  layout->frame = offsetof(PyThreadState, frame);
#endif
#if PY_VERSION_HEX >= 0x030B0000
  layout->kernel_id = offsetof(PyThreadState, native_thread_id);
  layout->stack_chunk = offsetof(PyThreadState, datastack_chunk);
  static_assert(
      offsetof(PyThreadState, datastack_top) == offsetof(PyThreadState, datastack_chunk) + kWord,
      "see Layout::stack_chunk");
#endif
#if PY_VERSION_HEX >= 0x030E0000
  layout->gil_word = offsetof(PyThreadState, holds_gil);
  layout->gil_mask = ~uint32_t{0};
#elif PY_VERSION_HEX >= 0x030C0000
  decltype(PyThreadState::_status) status{};
#if PY_VERSION_HEX >= 0x030D0000
  status.holds_gil = 1;
#else
  status.active = 1;
#endif
  static_assert(sizeof status == sizeof layout->gil_mask, "see Layout::gil_word");
  layout->gil_word = offsetof(PyThreadState, _status);
  layout->gil_mask = load_at<uint32_t>(&status, 0);
#endif
#if PY_VERSION_HEX >= 0x030C0000
  layout->raised = offsetof(PyThreadState, current_exception);
#else
  layout->raised = offsetof(PyThreadState, curexc_type);
#endif
  layout->exception_info = offsetof(PyThreadState, exc_info);
  layout->exception_item = offsetof(PyThreadState, exc_state);
  layout->item_exception = offsetof(_PyErr_StackItem, exc_value);
  layout->previous_item = offsetof(_PyErr_StackItem, previous_item);
}

}  // namespace

Layout own_layout() noexcept {
  Layout layout;
  layout.minor = PY_MINOR_VERSION;
  set_thread(&layout);
  set_frame(&layout);
#if PY_VERSION_HEX >= 0x030B0000
  layout.code_name = offsetof(PyCodeObject, co_qualname);
  layout.code_first_traceable = offsetof(PyCodeObject, _co_firsttraceable);
  layout.code_head_bytes = offsetof(PyCodeObject, co_code_adaptive);
#else
  layout.code_name = offsetof(PyCodeObject, co_name);
  layout.code_head_bytes = sizeof(PyCodeObject);
#endif
  layout.code_file = offsetof(PyCodeObject, co_filename);
  layout.code_first_line = offsetof(PyCodeObject, co_firstlineno);
  layout.code_lines = offsetof(PyCodeObject, co_linetable);
  layout.code_constants = offsetof(PyCodeObject, co_consts);
  layout.object_type = offsetof(PyObject, ob_type);
  layout.object_size = offsetof(PyVarObject, ob_size);
  layout.text_length = offsetof(PyASCIIObject, length);
  layout.text_state = offsetof(PyASCIIObject, state);
  decltype(PyASCIIObject::state) state{};
  state.kind = 1;
  static_assert(sizeof state == sizeof(uint32_t), "see CodeTable::copy_text()");
  for (auto bits = load_at<uint32_t>(&state, 0); bits >> layout.text_kind_shift > 1;)
    ++layout.text_kind_shift;
  layout.ascii_bytes = sizeof(PyASCIIObject);
  layout.compact_bytes = sizeof(PyCompactUnicodeObject);
  layout.bytes_data = offsetof(PyBytesObject, ob_sval);
  return layout;
}

Interpreter own_interpreter() noexcept {
  Interpreter found;
  found.pid = static_cast<int>(::getpid());
  found.layout = own_layout();
  found.state = address_of(PyInterpreterState_Main());
  found.code_type = address_of(&PyCode_Type);
  found.text_type = address_of(&PyUnicode_Type);
  found.bytes_type = address_of(&PyBytes_Type);
  found.none = address_of(Py_None);
  // By name: an interpreter that does not export it must not keep the module from being loaded.
  const void* const runtime = ::dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime != nullptr) {
    found.runtime = address_of(runtime);
    found.runtime_bytes = platform::symbol_size(runtime);
  }
  return found;
}

AnchorOffsets own_anchors() noexcept {
  AnchorOffsets found;
  const Interpreter own = own_interpreter();
  const uintptr_t thread = address_of(PyThreadState_Get());
  const uintptr_t newest = address_of(PyInterpreterState_Head());
  uintptr_t words[3] = {};
  for (size_t at = 0; at + sizeof words <= own.runtime_bytes; at += kWord) {
    if (!own.copy(own.runtime + at, words, sizeof words)) break;
    // The newest interpreter precedes the main one. Of the only one there are two words.
    if (words[0] == newest && words[1] == own.state && found.interpreter == kAbsent)
      found.interpreter = at + kWord;
    // Beside the interpreter of PyGILState_Ensure(); elsewhere it is who held the GIL last.
    if (words[0] == thread && (words[1] == own.state || words[2] == own.state) &&
        own.layout.gil_word == kAbsent)
      found.gil_holder = at;
  }
  const uintptr_t head = address_of(PyInterpreterState_ThreadHead(PyInterpreterState_Main()));
  for (size_t at = 0; at < kStateBytes && found.threads_head == kAbsent; at += kWord)
    if (own.copy(own.state + at, words, kWord) && words[0] == head) found.threads_head = at;
  return found;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
