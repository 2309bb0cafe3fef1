// SPDX-License-Identifier: Apache-2.0
// Defines Session, its summary and the trace writers once for a program or library whose files are
// compiled with FASTPROF_SEPARATE. Add this file to the build, or link the CMake target
// fastprof::fastprof, which does both. Without FASTPROF_SEPARATE, nothing of it is needed.
#ifndef FASTPROF_SEPARATE
#define FASTPROF_SEPARATE
#endif
#define FASTPROF_DEFINITIONS
#include "fastprof/fastprof.hpp"
