// SPDX-License-Identifier: Apache-2.0
// Include in test programs whose forked children start threads although the parent had some:
// ThreadSanitizer ends such children otherwise. Once per program.
#pragma once

#include "recorder_checks.hpp"

#if FASTPROF_TSAN
// Visible, because the sanitizer is a shared library that looks it up.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "die_after_fork=0";
}
#endif
