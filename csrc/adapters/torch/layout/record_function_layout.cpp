// SPDX-License-Identifier: Apache-2.0
// Table of layouts and lookup of libtorch's functions: see record_function_layout.hpp.
#include "adapters/torch/layout/record_function_layout.hpp"

#include <dlfcn.h>

#include <mutex>
#include <string>

#include "adapters/torch/layout/loaded_library.hpp"
#include "adapters/torch/layout/release_table.hpp"
#include "adapters/torch/layout/symbol_names.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// A row includes a release once tests/tools/torch_versions.py has passed on it; dates are in
// docs/torch_versions.md. Both 64-bit architectures have the same layout. The older string ABI is
// that of the 2.6 builds for CUDA; the offset of the name is unknown there, so libtorch is queried.
// Rows of macOS (libc++) come from the headers of the official builds, compiled for it elsewhere
// (docs/torch_versions.md): what the self-test says on a Mac decides.
constexpr KnownReleases<Layout> known_layouts[] = {
    {{2, 7}, kNewestRelease, StringAbi::libstdcxx, {344, 88, 96, 200, 304, 312, 320, 160}},
    {{2, 6}, {2, 6}, StringAbi::libstdcxx_older, {320, 88, 96, 176, 280, 288, 296, 0}},
    {{2, 13}, {2, 13}, StringAbi::libcxx_alternate, {320, 88, 96, 192, 280, 288, 296, 160}},
};

// The parameter type of the name is part of the symbol.
bool find_before(void* library, Functions& f) noexcept {
  const SymbolNames& names = kSymbolNames;
  return find_function(library, names.before, f.before) ||
         find_function(library, names.before_with_older_view, f.before_with_older_view) ||
         find_function(library, names.before_with_c_string, f.before_with_c_string);
}

const char* no_overload_name(const RecordFunctionView*) {
  return "";
}

}  // namespace

void Functions::begin(void* record_function, std::string_view text, int64_t sequence_nr) const {
  if (before != nullptr) return before(record_function, Name(text), sequence_nr);
  if (before_with_older_view != nullptr)
    return before_with_older_view(record_function,
                                  OlderName(OlderTextView{text.data(), text.size()}), sequence_nr);
  before_with_c_string(record_function, std::string(text).c_str(), sequence_nr);
}

const Layout* find_layout(std::string_view version, bool cxx11_abi) noexcept {
  return find_release(known_layouts, version, string_abi_here(cxx11_abi));
}

const char* known_versions() noexcept {
  return "2.7 to 2.15, and 2.6 with the older string ABI (Linux), and 2.13 (macOS)";
}

const Functions* find_functions(const char** why) noexcept {
  static std::mutex lock;
  static Functions functions;
  static bool found = false;
  const std::lock_guard<std::mutex> hold(lock);
  if (found) return &functions;
  void* library = loaded_libtorch(why);
  if (library == nullptr) return nullptr;
  Functions f{};
  const bool all =
      find_function(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
                    f.add_global_callback) &&
      find_function(library, "_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE",
                    f.add_thread_local_callback) &&
      find_function(library, kSymbolNames.remove_callback, f.remove_callback) &&
      find_function(library, "_ZN2at14RecordFunction15currentThreadIdEv", f.current_thread_id) &&
      find_function(library, "_ZNK2at14RecordFunction4nameEv", f.name) &&
      find_function(library, "_ZNK2at14RecordFunction7isAsyncEv", f.is_async) &&
      find_function(library, "_ZN2at14RecordFunctionC1ENS_11RecordScopeE", f.construct) &&
      find_function(library, "_ZN2at14RecordFunctionD1Ev", f.destroy) && find_before(library, f) &&
      find_function(library, "_ZN2at14RecordFunction3endEv", f.end) &&
      find_function(library, "_ZN2at14RecordFunction9_setAsyncEv", f.set_async);
  if (!find_function(library, "_ZNK2at14RecordFunction13overload_nameEv", f.overload_name))
    f.overload_name = &no_overload_name;
  // The symbol is in libc10, a dependency of libtorch_cpu.
  f.undefined_tensor = dlsym(library, "_ZN3c1019UndefinedTensorImpl10_singletonE");
  if (!all) {
    *why = "libtorch_cpu lacks a function of at::RecordFunction";
    return nullptr;
  }
  functions = f;
  found = true;
  return &functions;
}

bool has_global_callbacks() noexcept {
  const char* why = nullptr;
  void* library = loaded_libtorch(&why);
  bool (*has_global_callbacks)() = nullptr;
  return library == nullptr ||
         !find_function(library, "_ZN2at18hasGlobalCallbacksEv", has_global_callbacks) ||
         has_global_callbacks();
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
