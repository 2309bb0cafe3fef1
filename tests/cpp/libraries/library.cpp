// SPDX-License-Identifier: Apache-2.0
// An annotated library, built many ways by tests/python/integration/test_libraries.py. NAME is what
// its records are called.
#include <fastprof/fastprof.hpp>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void work(int count) {
  for (int i = 0; i < count; ++i) {
    FASTPROF_RANGE(NAME);
    FASTPROF_RANGE_ARGS(NAME " args", "text", NAME " text", "i", i);
    FASTPROF_RANGE_DYNAMIC(std::string(NAME " dynamic"));
  }
}
EXPORT const void* recorder_state() {
  return fastprof::state();
}
EXPORT int thread_block_is_static() {
  return static_cast<int>(fastprof::g_elected.tls_static);
}
EXPORT const void* own_recorder_state() {
  return &fastprof::own_state;
}
