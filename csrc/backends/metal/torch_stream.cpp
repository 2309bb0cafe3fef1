// SPDX-License-Identifier: Apache-2.0
// PyTorch's Metal stream without PyTorch's headers.
//
// libtorch_cpu exports four C++ functions, whose names have not changed since PyTorch 2.0:
//
//   at::mps::getDefaultMPSStream()              -> MPSStream*
//   at::mps::MPSStream::commandBuffer()         -> id (an MPSCommandBuffer)
//   at::mps::MPSStream::synchronize(SyncType)
//   at::mps::synchronizeAllMPSStreams(SyncType) (newer versions)
//
// dlsym() finds them by their mangled names. A method of a class without virtual functions is a
// function whose first argument is the object; SyncType is an int with the numbers of ours. Nothing
// of an MPSStream's layout is used. Profiles with ProfilerActivity.MPS do not need these: they
// observe commits (commit_observation.mm), and torch.mps.synchronize() commits what is left.
#include <dlfcn.h>

#include <functional>
#include <mutex>
#include <utility>

#include "backends/metal/metal_platform.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {
namespace {

struct TorchFunctions {
  void* (*default_stream)() = nullptr;
  void* (*command_buffer)(void* stream) = nullptr;
  void (*synchronize)(void* stream, int sync) = nullptr;
  void (*synchronize_all)(int sync) = nullptr;  // null in older versions

  bool complete() const noexcept {
    return default_stream != nullptr && command_buffer != nullptr && synchronize != nullptr;
  }
};

template <class Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

TorchFunctions find_torch() {
  TorchFunctions found;
  find(found.default_stream, "_ZN2at3mps19getDefaultMPSStreamEv");
  find(found.command_buffer, "_ZN2at3mps9MPSStream13commandBufferEv");
  find(found.synchronize, "_ZN2at3mps9MPSStream11synchronizeENS0_8SyncTypeE");
  find(found.synchronize_all, "_ZN2at3mps24synchronizeAllMPSStreamsENS0_8SyncTypeE");
  return found;
}

class TorchStream final : public Stream {
 public:
  explicit TorchStream(const TorchFunctions& torch) : torch_(torch) {}

  void on_scheduled(std::function<void()> run) override {
    on_buffer_scheduled(command_buffer(), std::move(run));
  }
  void on_completed(std::function<void(const BufferTimes&)> run) override {
    on_buffer_completed(command_buffer(), std::move(run));
  }
  void synchronize(SyncType sync) override {
    if (sync != SyncType::NONE) torch_.synchronize(stream(), static_cast<int>(sync));
  }
  Queue queue() override {
    Queue found = queue_of_buffer(command_buffer());
    if (found.name.empty()) found.name = "PyTorch MPS stream";
    return found;
  }
  uint64_t buffer() override { return buffer_id(command_buffer()); }

  void synchronize_all() {
    if (torch_.synchronize_all != nullptr)
      torch_.synchronize_all(static_cast<int>(SyncType::COMMIT_AND_WAIT));
    else
      synchronize(SyncType::COMMIT_AND_WAIT);
  }

 private:
  void* stream() {
    void* const found = torch_.default_stream();
    if (found == nullptr) raise<StateError>("PyTorch has no Metal stream in this process");
    return found;
  }
  void* command_buffer() { return torch_.command_buffer(stream()); }

  const TorchFunctions torch_;
};

TorchStream* found_stream() {
  static std::mutex lock;
  static TorchStream* found = nullptr;
  const std::lock_guard<std::mutex> hold(lock);
  if (found != nullptr) return found;
  const TorchFunctions torch = find_torch();  // again at each call: PyTorch may be loaded later
  if (torch.complete()) found = new TorchStream(torch);
  return found;
}

}  // namespace

Stream* torch_stream() {
  return found_stream();
}

void synchronize_torch_streams() {
  if (TorchStream* const stream = found_stream()) stream->synchronize_all();
}

}  // namespace metal
FASTPROF_NAMESPACE_END
