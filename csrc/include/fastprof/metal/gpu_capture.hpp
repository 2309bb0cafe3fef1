// SPDX-License-Identifier: Apache-2.0
// GpuCapture: captures of GPU work into documents (.gputrace) that Xcode opens.
#pragma once

#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/metal/platform.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// Starts and stops captures, one at a time. Any thread.
class GpuCapture {
 public:
  // platform must outlive the object.
  explicit GpuCapture(Platform& platform) : platform_(platform) {}

  // Whether this process may write documents: it was started with MTL_CAPTURE_ENABLED=1, or by
  // Xcode.
  bool is_enabled() { return platform_.capture_device().supports_documents(); }
  bool is_capturing() { return platform_.capture_device().is_capturing(); }

  // Starts a capture into the file "NNNN-NAME.gputrace" of the working directory, NNNN counting the
  // captures of this object from 0; a name with folders has the number in its last part. stream:
  // whose queue is captured; null: the whole device. Returns the path. Raises UnavailableError if
  // this process may not capture or the system refuses, StateError if a capture runs.
  std::string start(std::string_view name, Stream* stream = nullptr) {
    if (name.empty()) raise<ValueError>("a capture needs a name: its file is called after it");
    const std::lock_guard<std::mutex> hold(lock_);
    CaptureDevice& device = platform_.capture_device();
    if (!device.supports_documents())
      raise<UnavailableError>(
          "Metal captures are disabled in this process: start it with MTL_CAPTURE_ENABLED=1");
    if (device.is_capturing()) raise<StateError>("a Metal capture runs already: stop it first");
    const size_t slash = name.rfind('/');
    const size_t last = slash == std::string_view::npos ? 0 : slash + 1;
    char number[24];
    std::snprintf(number, sizeof number, "%04u-", count_++);
    const std::string path =
        std::string(name.substr(0, last)) + number + std::string(name.substr(last)) + ".gputrace";
    std::string error;
    if (!device.start(path, stream, error))
      raise<UnavailableError>("the Metal capture " + path + " could not be started: " + error);
    return path;
  }

  // Waits for the captured work and closes the document. If the wait raises, the document is closed
  // before the exception is raised again. stream: as in start(). Raises StateError if no capture
  // runs.
  void stop(Stream* stream = nullptr) {
    const std::lock_guard<std::mutex> hold(lock_);
    CaptureDevice& device = platform_.capture_device();
    if (!device.is_capturing()) raise<StateError>("no Metal capture runs: start one first");
      // Some versions of macOS crash if a capture ends while its work is still executing.
#if FASTPROF_EXCEPTIONS
    std::exception_ptr failure;
    try {
      drain(stream);
    } catch (...) {
      failure = std::current_exception();
    }
    device.stop();
    if (failure != nullptr) std::rethrow_exception(failure);
#else
    drain(stream);
    device.stop();
#endif
  }

 private:
  void drain(Stream* stream) {
    if (stream != nullptr)
      stream->synchronize(SyncType::COMMIT_AND_WAIT);
    else
      platform_.synchronize_all();
  }

  Platform& platform_;
  std::mutex lock_;
  unsigned count_ = 0;
};

}  // namespace metal
FASTPROF_NAMESPACE_END
