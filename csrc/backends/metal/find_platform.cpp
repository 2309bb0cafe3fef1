// SPDX-License-Identifier: Apache-2.0
// Choice of the Metal platform: see find_platform.hpp.
#include "backends/metal/find_platform.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#if defined(__APPLE__)
#include "backends/metal/metal_platform.hpp"
#endif

FASTPROF_NAMESPACE_BEGIN
namespace metal {

#if defined(__APPLE__)

Platform* find_platform(std::string&) {
  return &metal_platform();
}

#else

Platform* find_platform(std::string& reason) {
  static std::mutex lock;
  static Platform* found = nullptr;
  const std::lock_guard<std::mutex> hold(lock);
  if (found != nullptr) return found;
  const char* const path = std::getenv(kPlatformVariable);
  if (path == nullptr || *path == 0) {
    reason = "Metal exists on macOS only";
    return nullptr;
  }
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    reason = std::string(kPlatformVariable) + ": " + ::dlerror();
    return nullptr;
  }
  using Entry = void* (*)(const char*);
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "fastprof_metal_platform"));
  if (entry != nullptr) found = static_cast<Platform*>(entry(FASTPROF_VERSION_STRING));
  if (found == nullptr)
    reason = std::string(kPlatformVariable) + ": " + path +
             " has no platform for this version of fastprof (" FASTPROF_VERSION_STRING ")";
  return found;
}

#endif

}  // namespace metal
FASTPROF_NAMESPACE_END
