// SPDX-License-Identifier: Apache-2.0
// Names of the ranges that PyTorch's autograd engine puts around each backward function.
#pragma once

#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr std::string_view kEngineRangePrefix = "autograd::engine::evaluate_function: ";

constexpr bool is_engine_range(std::string_view name) noexcept {
  return name.substr(0, kEngineRangePrefix.size()) == kEngineRangePrefix;
}

FASTPROF_NAMESPACE_END
