// SPDX-License-Identifier: Apache-2.0
// An annotated library that calls back, for tests of stacks (test_native_frames.py).
#include <fastprof/annotate.hpp>
#include <thread>

#define EXPORT extern "C" __attribute__((visibility("default"), noinline))

namespace shapes {

// Not inlined, and no tail call: each has a frame.
__attribute__((noinline)) int apply(int (*function)(int), int value) {
  const int result = function(value);
  return result + 1;
}

template <class Number>
__attribute__((noinline)) Number twice(Number value) {
  FASTPROF_RANGE("in C++");
  return 2 * value;
}

}  // namespace shapes

EXPORT int call_back(int (*function)(int), int value) {
  return shapes::apply(function, value) + 1;
}
EXPORT int record(int value) {
  return shapes::twice<int>(value) + 1;
}
// Waits for a thread of its own, which records.
EXPORT int record_on_a_thread(int value) {
  int result = 0;
  std::thread([&] { result = shapes::twice<int>(value); }).join();
  return result;
}
