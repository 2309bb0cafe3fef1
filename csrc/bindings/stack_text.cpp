// SPDX-License-Identifier: Apache-2.0
#include "bindings/stack_text.hpp"

#include <algorithm>

#include "adapters/torch/ops/stack_capture.hpp"
#include "bindings/native_frames.hpp"
#include "bindings/python_name.hpp"
#include "bindings/stack_table.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

// The file passed to leave_out_frames_of(); initially empty. Never freed: threads read it during
// finalization.
std::string& own_file() {
  static auto* file = new std::string;
  return *file;
}

}  // namespace

std::string frame_text(const PythonFrame& frame) {
  if (frame.code == nullptr) return native_frame_text(return_address_of(frame));
  auto* code = reinterpret_cast<PyCodeObject*>(frame.code);
  std::string storage, text;
  std::string_view bytes;
  if (name_bytes(code->co_filename, storage, bytes)) text.append(bytes);
  text += '(' + std::to_string(python_adapter::python_frame_line(frame)) + "): ";
  if (name_bytes(code->co_name, storage, bytes)) text.append(bytes);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool is_own_frame(const PythonFrame& frame) {
  if (frame.code == nullptr) return false;
  std::string storage;
  std::string_view file;
  if (!name_bytes(reinterpret_cast<PyCodeObject*>(frame.code)->co_filename, storage, file)) {
    PyErr_Clear();
    return false;
  }
  return file == own_file() && !file.empty();
}

void leave_out_frames_of(std::string_view file) {
  own_file() = file;
}

std::string stack_text(const PythonFrame* frames, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const bool native = frames[i].code == nullptr;
    if (text.empty() && !native && is_own_frame(frames[i])) continue;
    const std::string frame = frame_text(frames[i]);
    if (text.empty() && native && torch_adapter::is_observing_function(frame)) continue;
    if (!text.empty()) text += '\n';
    text += frame;
  }
  return text;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
