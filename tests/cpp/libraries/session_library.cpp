// SPDX-License-Identifier: Apache-2.0
// A library that profiles: sessions behind C functions, for programs that know nothing of fastprof.
#include <cstdio>
#include <fastprof/fastprof.hpp>
#include <map>
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
  const fastprof::Capture& capture = session->stop();
  std::map<std::string, int> counts;
  for (size_t i = 0; i < capture.size(); ++i) ++counts[capture.sites[capture.site[i]].name];
  for (const auto& [name, count] : counts) std::printf("%s x%d\n", name.c_str(), count);
  delete session;
  session = nullptr;
}
EXPORT const void* recorder_state() {
  return fastprof::state();
}
EXPORT const void* own_recorder_state() {
  return &fastprof::own_state;
}
