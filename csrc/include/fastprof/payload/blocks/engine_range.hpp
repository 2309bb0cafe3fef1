// SPDX-License-Identifier: Apache-2.0
// Recognises the ranges that PyTorch's autograd engine records around each backward function.
#pragma once

#include <string_view>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

constexpr std::string_view kEngineRangePrefix = "autograd::engine::evaluate_function: ";

// Returns whether a range of this name was recorded by the autograd engine.
constexpr bool is_engine_range(std::string_view name) noexcept {
  return name.substr(0, kEngineRangePrefix.size()) == kEngineRangePrefix;
}

FASTPROF_NAMESPACE_END
