// SPDX-License-Identifier: Apache-2.0
// Loading a library of a device's vendor: see library_search.hpp.
#include "core/library_search.hpp"

#include <dlfcn.h>

#include <cstdlib>

FASTPROF_NAMESPACE_BEGIN
namespace devices {
namespace {

bool load(const std::string& name, int flags, const std::function<std::string(void*)>& bind,
          std::string& problem) {
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    problem = text != nullptr ? text : name + " cannot be loaded";
    return false;
  }
  const std::string missing = bind(handle);
  if (missing.empty()) return true;
  problem = name + " has no function " + missing;
  return false;
}

}  // namespace

bool find_symbol(void* handle, const char* name, void** function) {
  *function = ::dlsym(handle, name);
  return *function != nullptr;
}

bool load_library(const LibrarySearch& search, const std::function<std::string(void*)>& bind,
                  std::string& problem) {
  if (const char* chosen = std::getenv(search.variable)) {
    if (*chosen == 0) {
      problem =
          std::string(search.variable) + " is empty, which switches " + search.device + " off";
      return false;
    }
    if (load(chosen, 0, bind, problem)) return true;
    problem = std::string(search.variable) + " names a file that cannot be used: " + problem;
    return false;
  }
  for (const char* name : search.sonames)
    if (load(name, RTLD_NOLOAD, bind, problem)) return true;
  for (const std::string& path : search.candidates)
    if (load(path, 0, bind, problem)) return true;
  for (const char* variable : search.toolkit) {
    const char* const folder = std::getenv(variable);
    if (folder == nullptr || *folder == 0) continue;
    for (const char* below : search.below_toolkit)
      if (load(std::string(folder) + below, 0, bind, problem)) return true;
  }
  for (const char* name : search.sonames)
    if (load(name, 0, bind, problem)) return true;
  problem = std::string(search.name) + " was not found: install " + search.install + ", or set " +
            search.variable + " to the library's path";
  return false;
}

std::string path_of_function(void* function, const std::string& otherwise) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

}  // namespace devices
FASTPROF_NAMESPACE_END
