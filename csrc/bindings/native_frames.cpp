// SPDX-License-Identifier: Apache-2.0
// Native frames in Python stacks: see native_frames.hpp.
#include "bindings/native_frames.hpp"

#include <Python.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "fastprof/payload/native_stack/function_name.hpp"
#include "fastprof/payload/native_stack/symbolize.hpp"
#include "fastprof/platform/images.hpp"
#include "fastprof/platform/process.hpp"
#include "fastprof/platform/symbols.hpp"

#if PY_VERSION_HEX >= 0x030B0000
// Exported by every CPython up to 3.15, but since 3.11 not declared outside its own sources.
extern "C" PyAPI_FUNC(PyObject*)
    _PyEval_EvalFrameDefault(PyThreadState*, struct _PyInterpreterFrame*, int);
#endif

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

namespace {

// Addresses [first, last).
struct CodeRange {
  uint64_t first = 0;
  uint64_t last = 0;

  bool contains(uint64_t address) const noexcept { return address >= first && address < last; }
};

struct OwnCode {
  CodeRange evaluation;
  CodeRange interpreter;
  CodeRange launcher;  // the program `python`, if the interpreter is a library
  CodeRange fastprof;
  CodeRange c_library;
};

OwnCode own_code;
// Both are written with the GIL, before State::joined_stack is set.
bool own_code_found = false;

// Returns the executable segment that contains `address`; 0: the first one, which is the program's.
CodeRange code_around(uint64_t address) {
  CodeRange code;
  platform::for_each_image([&](const platform::Image& image) {
    image.for_each_segment([&](const platform::Segment& segment) {
      if (!segment.executable || code.last != 0) return;
      if (address == 0 || segment.holds(static_cast<uintptr_t>(address)))
        code = {segment.first, segment.first + segment.bytes};
    });
    return code.last == 0;
  });
  return code;
}
// Address of a function. (A macro and not a template: on macOS, std::abort has a type that is
// mangled differently.)
#define FASTPROF_CODE_OF(function)         \
  uint64_t {                               \
    reinterpret_cast<uintptr_t>(&function) \
  }

// Returns whether a file is CPython's: the program `python3.11`, or its library.
bool is_python(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1);
  return file.compare(0, 6, "python") == 0 || file.compare(0, 9, "libpython") == 0;
}

bool program_is_python() {
  char target[4096];
  return is_python(std::string(target, platform::read_program_path(target, sizeof target)));
}

CodeRange evaluation_loop() {
  const auto start = reinterpret_cast<uintptr_t>(&_PyEval_EvalFrameDefault);
  const uint64_t size = platform::symbol_size(reinterpret_cast<const void*>(start));
  if (size == 0) return {};
  return {start, start + size};
}

// Returns false if a program has linked the interpreter statically: the file then contains the
// program's own functions, too.
bool interpreter_has_own_file() {
  Dl_info info;
  return ::dladdr(reinterpret_cast<void*>(&_PyEval_EvalFrameDefault), &info) != 0 &&
         info.dli_fname != nullptr && is_python(info.dli_fname);
}

// Created at the first use and released when no session records native frames, because libraries
// may be loaded and unloaded in between. Never destroyed at exit: threads may still record.
std::mutex& symbols_mutex() {
  static std::mutex& only = *new std::mutex;
  return only;
}
std::shared_ptr<Symbolizer>& known_symbols() {
  static auto& only = *new std::shared_ptr<Symbolizer>;
  return only;
}

std::shared_ptr<Symbolizer> symbols() {
  const std::lock_guard<std::mutex> hold(symbols_mutex());
  if (known_symbols() == nullptr) known_symbols() = std::make_shared<Symbolizer>();
  return known_symbols();
}

}  // namespace

void find_own_code() {
  if (own_code_found) return;
  own_code.evaluation = evaluation_loop();
  if (interpreter_has_own_file())
    own_code.interpreter = code_around(FASTPROF_CODE_OF(_PyEval_EvalFrameDefault));
  if (program_is_python()) own_code.launcher = code_around(uint64_t{0});
  own_code.fastprof = code_around(FASTPROF_CODE_OF(find_own_code));
  own_code.c_library = code_around(FASTPROF_CODE_OF(std::abort));
  own_code_found = true;
}

NativeFrame native_frame_kind(uint64_t return_address) noexcept {
  const uint64_t inside = return_address - 1;  // a call may be a function's last instruction
  if (own_code.evaluation.contains(inside)) return NativeFrame::evaluation;
  if (own_code.interpreter.contains(inside) || own_code.launcher.contains(inside))
    return NativeFrame::interpreter;
  if (own_code.fastprof.contains(inside)) return NativeFrame::hidden;
  return own_code.c_library.contains(inside) ? NativeFrame::system : NativeFrame::shown;
}

void resolve_native_frames(const std::vector<uint64_t>& return_addresses) {
  const std::shared_ptr<Symbolizer> all = symbols();
  for (const uint64_t address : return_addresses) (void)all->return_address(address);
}

std::string native_frame_text(uint64_t return_address) {
  const Symbol symbol = symbols()->return_address(return_address);
  if (symbol.function.empty()) return symbol.text();
  std::string text = short_function_name(symbol.function) + " (" + symbol.file() + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::pair<std::string, std::string> native_frame_names(uint64_t return_address) {
  const Symbol symbol = symbols()->return_address(return_address);
  std::string name = symbol.function.empty() ? "[unknown]" : short_function_name(symbol.function);
  std::replace(name.begin(), name.end(), '\n', ' ');
  return {std::move(name), symbol.module};
}

void release_native_frames() {
  std::shared_ptr<Symbolizer> released;
  const std::lock_guard<std::mutex> hold(symbols_mutex());
  released.swap(known_symbols());
}

void forget_native_frames_in_child() {
  new (&symbols_mutex()) std::mutex;
  new (&known_symbols()) std::shared_ptr<Symbolizer>;  // leaked: its lock may have been held
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
