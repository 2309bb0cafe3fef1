// SPDX-License-Identifier: Apache-2.0
// Prototype sites that carry an op's overload name, for interning: add.Tensor and add.Scalar are
// two sites with the same name.
#pragma once

#include "fastprof/recorder/state/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// Returns `like` (static), or a copy of it with `function` set to `overload`, created once and
// never freed. Any thread. Takes a lock; called only on cache misses.
const Site& site_with_overload(const Site& like, const char* overload) noexcept;

// In a forked child: reinitialises the lock, whose holder may not exist.
void renew_overload_sites_in_child() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
