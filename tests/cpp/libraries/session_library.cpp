// SPDX-License-Identifier: Apache-2.0
// A library that profiles: sessions behind C functions, for programs that know nothing of fastprof.
#include <fastprof/fastprof.hpp>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
fastprof::Session* session = nullptr;
}

// 0: starts; 1: stops and prints "name xCOUNT" of all that was recorded.
EXPORT void work(int stop) {
  if (stop == 0) {
    session = new fastprof::Session;
    session->start();
    return;
  }
  for (const auto& row : session->stop(), session->summary().rows)
    std::printf("%s x%llu\n", row.name.c_str(), static_cast<unsigned long long>(row.count));
  delete session;
  session = nullptr;
}
EXPORT const void* recorder_state() {
  return fastprof::state();
}
EXPORT const void* own_recorder_state() {
  return &fastprof::own_state;
}
