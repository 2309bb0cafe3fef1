// SPDX-License-Identifier: Apache-2.0
// Makes PyTorch's own emit_nvtx work without CUDA: device stubs that write each range to the file
// that STUBS_LOG names, "thread call text", as the collector double does.
#include <fcntl.h>
#include <sys/syscall.h>
#include <torch/csrc/profiler/stubs/base.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void write_line(const char* call, const char* text) {
  static const int file =
      open(std::getenv("STUBS_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line = std::to_string(syscall(SYS_gettid)) + " " + call + " " + text + "\n";
  if (write(file, line.data(), line.size()) < 0) std::perror("stubs");
}

using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex*, ProfilerVoidEventStub*, int64_t*) const override {}
  float elapsed(const ProfilerVoidEventStub*, const ProfilerVoidEventStub*) const override {
    return 0;
  }
  void mark(const char* name) const override { write_line("mark", name); }
  void rangePush(const char* name) const override { write_line("push", name); }
  void rangePop() const override { write_line("pop", ""); }
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)>) const override {}
  void synchronize() const override {}
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void use_stubs() {
  static Stubs stubs;
  torch::profiler::impl::registerCUDAMethods(&stubs);
}
