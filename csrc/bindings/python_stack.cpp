// SPDX-License-Identifier: Apache-2.0
#include "bindings/python_stack.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "adapters/python/frames.hpp"
#include "adapters/python/gil.hpp"
#include "adapters/torch/ops/stack_capture.hpp"
#include "bindings/native_frames.hpp"
#include "bindings/op_stack.hpp"
#include "bindings/range_entry.hpp"
#include "bindings/stack_table.hpp"
#include "bindings/stack_text.hpp"
#include "fastprof/capture/row_details.hpp"
#include "fastprof/payload/native_stack/join_stacks.hpp"
#include "fastprof/payload/native_stack/unwind_cache.hpp"
#include "fastprof/recorder/state/detail_blocks.hpp"
#include "fastprof/recorder/store/directory.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

using python_adapter::ensure_gil;
using python_adapter::is_python_finalizing;
using python_adapter::walk_python_frames;

namespace {

bool has_python_frames(const PythonFrame* frames, size_t count) noexcept {
  return std::any_of(frames, frames + count,
                     [](const PythonFrame& frame) { return frame.code != nullptr; });
}

// Appends a stack to the backing file in force, if there is one. Requires the GIL if there are
// Python frames.
void write_to_file(uint64_t id, const PythonFrame* frames, size_t count) noexcept {
  State* s = state();
  if (FASTPROF_LIKELY(!file_in_force(s))) return;
  try {
    std::optional<pybind11::error_scope> kept;  // of the program, while the texts are made
    if (has_python_frames(frames, count)) kept.emplace();
    const std::string text = stack_text(frames, count);
    StateLock hold(s);
    if (file_in_force(s))
      add_text_entry(s->backing_file, EntryType::stack, reinterpret_cast<const void*>(id),
                     text.data(), text.size());
  } catch (const std::bad_alloc&) {  // readers count the stack as missing
  }
}

// Adds a stack unless it is there, and returns its id; 0 if it cannot be kept. Requires the GIL if
// there are Python frames.
uint64_t add_to_table(const PythonFrame* frames, uint32_t count, bool* fresh) noexcept {
  const uint64_t hash = StackTable::hash(frames, count);
  StackTable& table = stack_table();
  const std::lock_guard<std::mutex> hold(table.lock());
  // Since the lookup, another thread may have added the stack, or the last session may have ended.
  if (const uint64_t known = table.find(hash, frames, count)) return known;
  if (python_stack_sessions == 0) return 0;
  const uint64_t id = table.add(hash, frames, count);
  *fresh = id != 0;
  return id;
}

std::vector<PythonFrame> frames_of(uint64_t id) {
  const std::lock_guard<std::mutex> hold(stack_table().lock());
  return stack_table().frames_of(id);
}

// Turns stack blocks whose text is gone (`gone` by string index) into blocks of type nothing.
void leave_out_stacks(Capture& capture, const std::vector<bool>& gone) {
  for (size_t row = 0; row < capture.size(); ++row) {
    const RowDetails details = details_of(capture, row);
    uint64_t* const end = capture.payload_words.data() + capture.payload_words.size();
    for_each_block(
        end - details.room, details.room, [&gone](DetailBlock block, uint64_t* contents) {
          if (block.type != DetailType::python_stack || block.count == 0 || !gone[contents[0]])
            return;
          contents[0] = 0;
          contents[-1] = detail_block_word(DetailType::nothing, block.count, block.reserved);
        });
  }
}

}  // namespace

uint64_t capture_python_stack() noexcept {
  PythonFrame frames[kMaxPythonFrames];
  const uint32_t count = walk_python_frames(PyThreadState_Get(), frames, kMaxPythonFrames);
  if (count == 0) return 0;
  if (const uint64_t known = find_python_stack(frames, count)) return known;
  return add_python_stack(frames, count);
}

uint64_t capture_joined_stack(const void* caller) noexcept {
  constexpr uint32_t kMaxNativeFrames = 512;
  // Read by its own thread only. The functions called below may allocate, and so record ranges.
  static thread_local bool busy = false;
  static thread_local StackBounds bounds = thread_stack_bounds();
  if (busy || is_python_finalizing()) return 0;
  busy = true;
  uint64_t natives[kMaxNativeFrames];
  const CppStack native =
      capture_cpp_stack(natives, kMaxNativeFrames, caller, StackMethod::unwind_tables, bounds);
  PythonFrame python[kMaxPythonFrames];
  bool entries[kMaxPythonFrames];
  uint32_t python_count = 0;
  PyThreadState* thread = PyGILState_GetThisThreadState();
  PyGILState_STATE gil{};
  if (thread != nullptr) {
#if FASTPROF_FRAMES_NEED_GIL
    gil = ensure_gil();
#endif
    python_count = walk_python_frames(thread, python, kMaxPythonFrames, entries);
  }
  PythonFrame frames[kMaxPythonFrames + kMaxNativeFrames];
  uint32_t count = 0;
  join_stacks(
      natives, native.count, python_count, native.truncated || python_count == kMaxPythonFrames,
      native_frame_kind, [&](uint32_t i) { return entries[i]; },
      [&](uint64_t address) { frames[count++] = native_frame(address); },
      [&](uint32_t i) { frames[count++] = python[i]; });
  uint64_t id = count == 0 ? 0 : find_python_stack(frames, count);
  if (id == 0 && count != 0) {
    // A thread without Python frames must not wait for the GIL: its holder may wait for it.
    const bool needs_gil = python_count != 0 && !FASTPROF_FRAMES_NEED_GIL;
    if (needs_gil) gil = ensure_gil();
    id = add_python_stack(frames, count);
    if (needs_gil) PyGILState_Release(gil);
  }
#if FASTPROF_FRAMES_NEED_GIL
  if (thread != nullptr) PyGILState_Release(gil);
#endif
  busy = false;
  return id;
}

uint64_t find_python_stack(const PythonFrame* frames, uint32_t count) noexcept {
  const uint64_t hash = StackTable::hash(frames, count);
  const std::lock_guard<std::mutex> hold(stack_table().lock());
  return stack_table().find(hash, frames, count);
}

uint64_t add_python_stack(const PythonFrame* frames, uint32_t count) noexcept {
  bool fresh = false;
  const uint64_t id = add_to_table(frames, count, &fresh);
  if (fresh) write_to_file(id, frames, count);
  return id;
}

void write_stacks_to_file() noexcept {
  uint64_t first_id = 0;
  size_t known = 0;
  {
    const std::lock_guard<std::mutex> hold(stack_table().lock());
    first_id = stack_table().first_id();
    known = stack_table().size();
  }
  try {
    for (size_t i = 0; i < known; ++i) {
      const std::vector<PythonFrame> frames = frames_of(first_id + i);
      if (!frames.empty()) write_to_file(first_id + i, frames.data(), frames.size());
    }
  } catch (const std::bad_alloc&) {  // readers count the other stacks as missing
  }
}

void resolve_frames_of_stacks() {
  std::vector<uint64_t> addresses;
  {
    const std::lock_guard<std::mutex> hold(stack_table().lock());
    for (const PythonFrame& frame : stack_table().frames())
      if (frame.code == nullptr) addresses.push_back(return_address_of(frame));
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  if (!addresses.empty()) resolve_native_frames(addresses);
}

bool is_known_python_stack(uint64_t id) noexcept {
  return id != 0 && stack_table().is_current(id);
}

void resolve_python_stacks(Capture& capture, bool wanted) {
  std::vector<bool> gone(capture.strings.size());
  bool any_gone = false;
  for (const auto& [id, index] : capture.python_stacks) {
    // No frames: the stack was captured for an earlier session, on a thread that was suspended
    // between capture and record until this session began. The code objects are released, so the
    // range gets no stack.
    const std::vector<PythonFrame> frames = wanted ? frames_of(id) : std::vector<PythonFrame>();
    if (frames.empty()) gone[index] = any_gone = true;
    capture.strings[index] = stack_text(frames.data(), frames.size());
  }
  if (any_gone) leave_out_stacks(capture, gone);
  capture.python_stacks.clear();  // last: after std::bad_alloc it is done again
}

void append_python_stack(std::vector<std::string>* frames) {
  // During finalization, a thread that takes the GIL never returns.
  if (PyGILState_GetThisThreadState() == nullptr || is_python_finalizing()) return;
  const PyGILState_STATE gil = ensure_gil();
  PythonFrame walked[kMaxPythonFrames];
  const uint32_t count = walk_python_frames(PyThreadState_Get(), walked, kMaxPythonFrames);
  uint32_t i = 0;
  while (i < count && is_own_frame(walked[i])) ++i;
  for (; i < count; ++i) frames->push_back(frame_text(walked[i]));
  PyGILState_Release(gil);
}

void want_python_stacks(bool native) {
  if (native) {
    find_own_code();
    // Release: the provider reads what find_own_code() has written.
    uint64_t (*const provider)(const void*) = &capture_joined_stack;
    store_release(&state()->joined_stack, provider);
  }
  const std::lock_guard<std::mutex> hold(stack_table().lock());
  store_relaxed(&python_stack_sessions, python_stack_sessions + 1);
  if (native) store_relaxed(&joined_stack_sessions, joined_stack_sessions + 1);
  torch_adapter::capture_stacks_with(joined_stack_sessions == 0 ? &capture_op_stack : nullptr);
}

void release_python_stacks(bool native) {
  std::vector<PythonFrame> released;
  {
    const std::lock_guard<std::mutex> hold(stack_table().lock());
    if (python_stack_sessions == 0) return;
    store_relaxed(&python_stack_sessions, python_stack_sessions - 1);
    if (native) store_relaxed(&joined_stack_sessions, joined_stack_sessions - 1);
    const bool python_only = python_stack_sessions != 0 && joined_stack_sessions == 0;
    torch_adapter::capture_stacks_with(python_only ? &capture_op_stack : nullptr);
    if (python_stack_sessions != 0) return;
    released = stack_table().clear();
  }
  release_native_frames();
  // Last, because releasing code objects may run other code.
  for (const PythonFrame& frame : released) Py_XDECREF(frame.code);
}

void forget_python_stacks_in_child() {
  stack_table().renew_lock();
  if (python_stack_sessions == 0) return;
  forget_native_frames_in_child();
  store_relaxed(&python_stack_sessions, 1u);
  store_relaxed(&joined_stack_sessions, 0u);
  release_python_stacks(false);
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
