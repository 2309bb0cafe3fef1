// SPDX-License-Identifier: Apache-2.0
// Python stacks by id: see python_stack.hpp.
#include "bindings/python_stack.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "adapters/torch/stack_capture.hpp"
#include "bindings/op_stack.hpp"
#include "bindings/python_frames.hpp"
#include "bindings/python_name.hpp"
#include "bindings/range_entry.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

struct KnownStack {
  uint64_t hash;
  uint32_t first;  // into Stacks::frames
  uint32_t count;
};

// Open addressing over `known`; ids are indices + 1 over the generation's base, so that an id of an
// earlier generation is never taken for one of this.
struct Stacks {
  std::vector<PythonFrame> frames;  // strong references to the code objects
  std::vector<KnownStack> known;
  std::vector<uint32_t> slots;  // index + 1, 0 free; a power of two, at most half full
};

constexpr size_t kMaxStacks = size_t{1} << 20;
uint64_t generation = 0;  // written under StackLock; relaxed: what is_known_python_stack looks at

Stacks& stacks() {
  static Stacks& all = *new Stacks;
  return all;
}

// Held for looks and changes only, never while Python may run or the GIL be waited for: threads
// take it with and without the GIL.
struct StackLock {
  static std::mutex& mutex() {
    static std::mutex& only = *new std::mutex;
    return only;
  }
  std::lock_guard<std::mutex> hold{mutex()};
};

// A sum of what each frame gives by itself, so that the frames are mixed side by side.
uint64_t hash_frames(const PythonFrame* frames, uint32_t count) noexcept {
  uint64_t sum = count;
  uint64_t place = 0;
  for (uint32_t i = 0; i < count; ++i) {
    place += 0x9E3779B97F4A7C15u;
    const uint64_t offset = static_cast<uint64_t>(frames[i].offset) * 0xA0761D6478BD642Fu;
    const uint64_t mixed =
        ((reinterpret_cast<uintptr_t>(frames[i].code) ^ offset) + place) * 0xD6E8FEB86659FD93u;
    sum += mixed ^ mixed >> 32;
  }
  const uint64_t h = (sum ^ sum >> 32) * 0xE7037ED1A0B428DBu;
  return h ^ h >> 29;
}

void grow(Stacks& all) {
  std::vector<uint32_t> slots(std::max<size_t>(1024, all.slots.size() * 4), 0);
  for (size_t k = 0; k < all.known.size(); ++k) {
    size_t i = all.known[k].hash;
    while (slots[i & (slots.size() - 1)] != 0) ++i;
    slots[i & (slots.size() - 1)] = static_cast<uint32_t>(k + 1);
  }
  all.slots.swap(slots);
}

std::string frame_text(const PythonFrame& frame) {
  auto* code = reinterpret_cast<PyCodeObject*>(frame.code);
  std::string storage, text;
  std::string_view bytes;
  if (name_bytes(code->co_filename, storage, bytes)) text.append(bytes);
  text += '(' + std::to_string(python_frame_line(frame)) + "): ";
  if (name_bytes(code->co_name, storage, bytes)) text.append(bytes);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The id of a known stack, else 0. Locked.
uint64_t find_known(const Stacks& all, uint64_t hash, const PythonFrame* frames,
                    uint32_t count) noexcept {
  if (all.slots.empty()) return 0;
  for (size_t i = hash;; ++i) {
    const uint32_t index = all.slots[i & (all.slots.size() - 1)];
    if (index == 0) return 0;
    const KnownStack& stack = all.known[index - 1];
    if (stack.hash != hash || stack.count != count) continue;
    const PythonFrame* at = all.frames.data() + stack.first;
    if (std::equal(frames, frames + count, at, [](const PythonFrame& a, const PythonFrame& b) {
          return a.code == b.code && a.offset == b.offset;
        }))
      return generation << 32 | index;
  }
}

// Borrowed: alive until release_python_stacks. Empty for an id that is not of this generation.
std::vector<PythonFrame> frames_of(uint64_t id) {
  const StackLock lock;
  const Stacks& all = stacks();
  const uint64_t index = id & 0xFFFFFFFFu;
  if (id >> 32 != generation || index == 0 || index > all.known.size()) return {};
  const KnownStack& stack = all.known[index - 1];
  const auto first = all.frames.begin() + stack.first;
  return {first, first + stack.count};
}

// The file of leave_out_frames_of(), empty before. Never freed: threads read it while Python ends.
std::string& own_file() {
  static auto* file = new std::string;
  return *file;
}

// The wrapper that a decorator put around the function: not a frame of the program. By its file,
// which what Dynamo makes of its code keeps.
bool is_own_frame(const PythonFrame& frame) {
  std::string storage;
  std::string_view file;
  if (!name_bytes(reinterpret_cast<PyCodeObject*>(frame.code)->co_filename, storage, file)) {
    PyErr_Clear();
    return false;
  }
  return file == own_file() && !file.empty();
}

// Makes blocks of stacks whose text is gone (by its index) mean nothing.
void leave_out_stacks(Capture& capture, const std::vector<bool>& gone) {
  for (size_t row = 0; row < capture.size(); ++row) {
    if ((capture.flags[row] & event_flag::detail) == 0) continue;
    size_t at = size_t{capture.payload[row]} + capture.sites[capture.site[row]].arg_types.size();
    const size_t last = at + 1 + static_cast<uint32_t>(capture.payload_words[at]);
    for (++at; at < last;) {
      uint64_t& block = capture.payload_words[at++];
      const size_t size = block >> 16 & 0xFFFF;
      if ((block & 0xFFFF) == 0) break;
      if (static_cast<DetailType>(block & 0xFFFF) == DetailType::python_stack && size != 0 &&
          gone[capture.payload_words[at]]) {
        capture.payload_words[at] = 0;
        block = (block & ~uint64_t{0xFFFF}) | static_cast<uint64_t>(DetailType::nothing);
      }
      at += size;
    }
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

uint64_t find_python_stack(const PythonFrame* frames, uint32_t count) noexcept {
  const uint64_t hash = hash_frames(frames, count);
  const StackLock lock;
  return find_known(stacks(), hash, frames, count);
}

uint64_t add_python_stack(const PythonFrame* frames, uint32_t count) noexcept {
  const uint64_t hash = hash_frames(frames, count);
  const StackLock lock;
  Stacks& all = stacks();
  // Since the look another thread may have made it known, and the last session may have ended.
  if (const uint64_t known = find_known(all, hash, frames, count)) return known;
  if (python_stack_sessions == 0 || all.known.size() >= kMaxStacks) return 0;
  try {
    if (all.known.size() * 2 >= all.slots.size()) grow(all);
    const auto first = static_cast<uint32_t>(all.frames.size());
    all.frames.insert(all.frames.end(), frames, frames + count);
    all.known.push_back({hash, first, count});
  } catch (const std::bad_alloc&) {
    return 0;
  }
  for (uint32_t i = 0; i < count; ++i) Py_INCREF(frames[i].code);
  size_t i = hash;
  while (all.slots[i & (all.slots.size() - 1)] != 0) ++i;
  const auto index = static_cast<uint32_t>(all.known.size());
  all.slots[i & (all.slots.size() - 1)] = index;
  return generation << 32 | index;
}

bool is_known_python_stack(uint64_t id) noexcept {
  return id != 0 && id >> 32 == load_relaxed(&generation);
}

void resolve_python_stacks(Capture& capture, bool wanted) {
  std::vector<bool> gone(capture.strings.size());
  bool any_gone = false;
  for (const auto& [id, index] : capture.python_stacks) {
    // Without frames: walked for an earlier session, on a thread that came to stand between its
    // walk and its record until this one had begun. That code is let go: the range has no stack.
    const std::vector<PythonFrame> frames = wanted ? frames_of(id) : std::vector<PythonFrame>();
    if (frames.empty()) gone[index] = any_gone = true;
    std::string& text = capture.strings[index];
    size_t i = 0;
    while (i < frames.size() && is_own_frame(frames[i])) ++i;
    for (; i < frames.size(); ++i) {
      if (!text.empty()) text += '\n';
      text += frame_text(frames[i]);
    }
  }
  capture.python_stacks.clear();
  if (any_gone) leave_out_stacks(capture, gone);
}

void append_python_stack(std::vector<std::string>* frames) {
  // While Python ends, a thread that asks for the GIL does not come back.
  if (PyGILState_GetThisThreadState() == nullptr || is_python_finalizing()) return;
  const PyGILState_STATE gil = PyGILState_Ensure();
  PythonFrame walked[kMaxPythonFrames];
  const uint32_t count = walk_python_frames(PyThreadState_Get(), walked, kMaxPythonFrames);
  uint32_t i = 0;
  while (i < count && is_own_frame(walked[i])) ++i;
  for (; i < count; ++i) frames->push_back(frame_text(walked[i]));
  PyGILState_Release(gil);
}

void leave_out_frames_of(std::string_view file) {
  own_file() = file;
}

void want_python_stacks() {
  const StackLock lock;
  store_relaxed(&python_stack_sessions, python_stack_sessions + 1);
  torch_adapter::capture_stacks_with(&capture_op_stack);
}

void release_python_stacks() {
  std::vector<PythonFrame> released;
  {
    const StackLock lock;
    if (python_stack_sessions == 0) return;
    store_relaxed(&python_stack_sessions, python_stack_sessions - 1);
    if (python_stack_sessions != 0) return;
    torch_adapter::capture_stacks_with(nullptr);
    Stacks& all = stacks();
    released.swap(all.frames);
    all = Stacks{};
    store_relaxed(&generation, generation + 1);
  }
  // Last: releasing code may run other code.
  for (const PythonFrame& frame : released) Py_DECREF(frame.code);
}

void forget_python_stacks_in_child() {
  // Another thread of the parent may have held it.
  new (&StackLock::mutex()) std::mutex;
  if (python_stack_sessions == 0) return;
  store_relaxed(&python_stack_sessions, 1u);
  release_python_stacks();
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
