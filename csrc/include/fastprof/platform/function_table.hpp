// SPDX-License-Identifier: Apache-2.0
// The functions of one module.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/function_table.hpp"
#else
#include "fastprof/platform/linux/function_table.hpp"
#endif
