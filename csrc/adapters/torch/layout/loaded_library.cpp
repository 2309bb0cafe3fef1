// SPDX-License-Identifier: Apache-2.0
// Finds libtorch_cpu: see loaded_library.hpp.
#include "adapters/torch/layout/loaded_library.hpp"

#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <string>

#include "fastprof/platform/images.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

// Returns whether a file is libtorch_cpu: "libtorch_cpu.so", with or without a version, or
// ".dylib".
bool is_libtorch(const char* path) noexcept {
  const char* slash = std::strrchr(path, '/');
  constexpr char prefix[] = "libtorch_cpu.";
  return std::strncmp(slash != nullptr ? slash + 1 : path, prefix, sizeof prefix - 1) == 0;
}

}  // namespace

void* loaded_libtorch(const char** why) noexcept {
  static std::mutex lock;
  static void* library = nullptr;
  const std::lock_guard<std::mutex> hold(lock);
  if (library != nullptr) return library;
  std::string path;
  platform::for_each_image([&](const platform::Image& image) {
    if (!is_libtorch(image.path())) return true;
    path = image.path();
    return false;
  });
  if (path.empty()) {
    *why = "libtorch_cpu is not loaded";
    return nullptr;
  }
  // RTLD_NOLOAD: returns a handle only if the library is already loaded.
  library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) *why = "dlopen returned no handle of the loaded libtorch_cpu";
  return library;
}

void* find_symbol(void* library, const char* symbol) noexcept {
  return dlsym(library, symbol);
}

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
