// SPDX-License-Identifier: Apache-2.0
// An annotated library, built many ways by tests/python/integration/test_libraries.py. NAME is what
// its records are called; with ANNOTATE_ONLY it is a library that knows no Session.
#if defined(ANNOTATE_ONLY)
#include <fastprof/annotate.hpp>
#else
#include <fastprof/fastprof.hpp>
#endif
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
  return static_cast<int>(fastprof::g_recorder.tls_static);
}
EXPORT const void* own_recorder_state() {
  return &fastprof::own_state;
}
// What else annotate.hpp offers, once each.
EXPORT void work_with_all() {
  FASTPROF_RECORD_FUNCTION(NAME " operator", fastprof::inputs(1, 2.0, "three"),
                           fastprof::sequence_number(4));
  FASTPROF_MARK(NAME " mark");
  FASTPROF_COUNTER(NAME " counter", 5);
  FASTPROF_FLOW_BEGIN(6);
  FASTPROF_FLOW_END(6);
  const fastprof::AsyncHandle async = FASTPROF_ASYNC_BEGIN(NAME " async");
  FASTPROF_ASYNC_END(async);
  int block = 0;
  fastprof::report_memory_usage(&block, 7, 0, 0, {fastprof::DeviceType::CPU, -1});
  fastprof::report_out_of_memory(8, 0, 0, {fastprof::DeviceType::CPU, -1});
  const fastprof::signal_scope signal;
  FASTPROF_RANGE(NAME " in a signal handler");
}
