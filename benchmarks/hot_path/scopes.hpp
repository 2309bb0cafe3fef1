// SPDX-License-Identifier: Apache-2.0
// The annotated loops that are measured. Compiled into the executable and again into a dlopened
// library.
#pragma once

#include <cstddef>
#include <fastprof/fastprof.hpp>
#include <string>
#include <vector>

// Table of loops. The library returns its own from `hot_path_loops`.
struct HotPathLoops {
  void (*range)(size_t n);
  void (*nested)(size_t n);  // n ranges in total, in chains of 8
  void (*async)(size_t n);
  void (*args_int2)(size_t n);
  void (*args_string)(size_t n);
  void (*dynamic)(size_t n);
  void (*mark)(size_t n);
  void (*counter)(size_t n);
  void (*record_function)(size_t n);
};

namespace hot_path {

inline void pause() {
  __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void range(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_RANGE("range");
    pause();
  }
}

template <int Depth>
__attribute__((noinline)) void chain() {
  FASTPROF_RANGE("nested");
  pause();
  if constexpr (Depth > 1) chain<Depth - 1>();
}
__attribute__((noinline)) static void nested(size_t n) {
  for (size_t i = 0; i < n; i += 8) chain<8>();
}

__attribute__((noinline)) static void async(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const fastprof::AsyncHandle handle = FASTPROF_ASYNC_BEGIN("async");
    pause();
    FASTPROF_ASYNC_END(handle);
  }
}

__attribute__((noinline)) static void args_int2(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_RANGE_ARGS("args", "i", static_cast<int>(i), "n", n);
    pause();
  }
}

__attribute__((noinline)) static void args_string(size_t n) {
  const char* texts[4] = {"relu", "gelu", "tanh", "sigmoid"};
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_RANGE_ARGS("args", "activation", texts[i & 3]);
    pause();
  }
}

__attribute__((noinline)) static void dynamic(size_t n) {
  const std::vector<std::string> names = {"layer.0.attention", "layer.1.attention",
                                          "layer.2.attention", "layer.3.attention"};
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_RANGE_DYNAMIC(names[i & 3]);
    pause();
  }
}

__attribute__((noinline)) static void mark(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_MARK("mark");
    pause();
  }
}

__attribute__((noinline)) static void counter(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_COUNTER("counter", i);
    pause();
  }
}

__attribute__((noinline)) static void record_function(size_t n) {
  for (size_t i = 0; i < n; ++i) {
    FASTPROF_RECORD_FUNCTION("op");
    pause();
  }
}

constexpr HotPathLoops kLoops = {&range,   &nested, &async,   &args_int2,      &args_string,
                                 &dynamic, &mark,   &counter, &record_function};

}  // namespace hot_path
