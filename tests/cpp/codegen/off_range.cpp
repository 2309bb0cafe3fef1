// SPDX-License-Identifier: Apache-2.0
// What test_codegen.py disassembles: functions that hold one annotation and nothing else.
#include <fastprof/fastprof.hpp>

extern "C" {
__attribute__((visibility("default"))) void only_range() {
  FASTPROF_RANGE("x");
}
__attribute__((visibility("default"))) void only_mark() {
  FASTPROF_MARK("x");
}
__attribute__((visibility("default"))) void only_counter(double value) {
  FASTPROF_COUNTER("x", value);
}
__attribute__((visibility("default"))) void two_ranges() {
  FASTPROF_RANGE("x");
  FASTPROF_RANGE("y");
}
__attribute__((visibility("default"))) void range_with_arguments(int a, int b) {
  FASTPROF_RANGE_ARGS("x", "a", a, "b", b);
}
__attribute__((visibility("default"))) void nothing() {}
}

#if defined(WITH_MAIN)
int main() {
  return 0;
}
#endif
