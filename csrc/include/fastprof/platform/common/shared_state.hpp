// SPDX-License-Identifier: Apache-2.0
// What a walk over the loaded objects finds, the States of the process's annotated libraries; and
// keeping an object loaded.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

struct State;  // recorder/state/state.hpp

namespace discovery {

constexpr size_t kMagicBytes = 16;

// How a State is recognised: its first kMagicBytes bytes, and the alignment of its address.
struct Wanted {
  const char* magic = nullptr;
  size_t alignment = 1;
};

constexpr int kMaxObjects = 512;

// Result of one walk over the loaded objects. The walk calls nothing that takes the loader's lock.
struct Found {
  State* states[kMaxObjects];      // of our ABI major, in link-map order
  const char* paths[kMaxObjects];  // of their objects, as the loader reports them
  int count = 0;
  const char* other_paths[16];  // the first 16 objects with another ABI major
  int other_count = 0;
  uintptr_t self = 0;  // an address in the object whose path and extent are wanted
  uintptr_t self_first = 0, self_last = 0;
  const char* self_path = nullptr;
  Wanted wanted;
};

}  // namespace discovery

// Pins the object at `path`, which must be loaded, for the rest of the process: dlclose(3) no
// longer unloads it. Null, or empty (the executable, which cannot be unloaded): does nothing. Takes
// the loader's lock.
inline void pin_object(const char* path) noexcept {
  if (path != nullptr && path[0] != '\0')
    (void)::dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

FASTPROF_NAMESPACE_END
