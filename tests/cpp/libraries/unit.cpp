// SPDX-License-Identifier: Apache-2.0
// One of many translation units of one library.
#include <fastprof/fastprof.hpp>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
__attribute__((visibility("hidden"))) void JOIN(unit_, NUMBER)() {
  FASTPROF_RANGE("unit");
}
