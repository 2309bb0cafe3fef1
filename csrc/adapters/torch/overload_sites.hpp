// SPDX-License-Identifier: Apache-2.0
// Prototypes of sites that carry an op's overload name, for interning: add.Tensor and add.Scalar
// are two sites of one name.
#pragma once

#include "fastprof/recorder/site.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace torch_adapter {

// `like` (static), or a copy of it whose `function` is `overload`, made once and kept for good. Any
// thread; takes a lock, so only for names that are met first.
const Site& site_with_overload(const Site& like, const char* overload) noexcept;

// In a forked child, where the lock's holder may not be.
void renew_overload_sites_in_child() noexcept;

}  // namespace torch_adapter
FASTPROF_NAMESPACE_END
