// SPDX-License-Identifier: Apache-2.0
// Keeping a loaded object in memory, by dlopen(3).
#pragma once

#include <dlfcn.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Pins the object at `path`, which must be loaded, for the rest of the process: dlclose(3) no
// longer unloads it. Null, or empty (the executable, which cannot be unloaded): does nothing. Takes
// the loader's lock.
inline void pin_object(const char* path) noexcept {
  if (path != nullptr && path[0] != '\0')
    (void)::dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

FASTPROF_NAMESPACE_END
