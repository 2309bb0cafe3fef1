// SPDX-License-Identifier: Apache-2.0
// Observation of the commits of all Metal command buffers of the process.
#pragma once

#include <memory>
#include <string>

#include "fastprof/metal/platform.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// See Platform::observe_commits().
bool observe_commits(std::shared_ptr<CommitObserver> observer, std::string& reason);

}  // namespace metal
FASTPROF_NAMESPACE_END
