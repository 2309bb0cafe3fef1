// SPDX-License-Identifier: Apache-2.0
// Discovery: finds the process's annotated libraries by their States (platform/shared_state.hpp).
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/platform/shared_state.hpp"
#include "fastprof/recorder/state/own_state.hpp"

FASTPROF_NAMESPACE_BEGIN

namespace discovery {

static_assert(sizeof own_state.magic == kMagicBytes, "a State is recognised by its magic");

// Walks the loaded objects. `self`: an address in the object whose path is wanted.
inline Found scan_libraries(const void* self) noexcept {
  return scan_objects(self, {own_state.magic, alignof(State)});
}

}  // namespace discovery

FASTPROF_NAMESPACE_END
