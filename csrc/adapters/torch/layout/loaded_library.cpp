// SPDX-License-Identifier: Apache-2.0
// Finds libtorch_cpu: see loaded_library.hpp.
#include "adapters/torch/layout/loaded_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <mutex>
#include <string>

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {
namespace {

int note_library(dl_phdr_info* info, size_t, void* found) {
  const char* path = info->dlpi_name;
  if (path == nullptr) return 0;
  const char* slash = std::strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  constexpr char prefix[] = "libtorch_cpu.so";
  if (std::strncmp(name, prefix, sizeof prefix - 1) != 0) return 0;
  *static_cast<std::string*>(found) = path;
  return 1;
}

}  // namespace

void* loaded_libtorch(const char** why) noexcept {
  static std::mutex lock;
  static void* library = nullptr;
  const std::lock_guard<std::mutex> hold(lock);
  if (library != nullptr) return library;
  std::string path;
  dl_iterate_phdr(&note_library, &path);
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
