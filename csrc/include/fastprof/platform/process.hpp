// SPDX-License-Identifier: Apache-2.0
// What identifies this process and this boot; its name; the limits of its machine.
#pragma once

#include "fastprof/base/config.hpp"

#if FASTPROF_DARWIN
#include "fastprof/platform/darwin/process.hpp"
#else
#include "fastprof/platform/linux/process.hpp"
#endif
