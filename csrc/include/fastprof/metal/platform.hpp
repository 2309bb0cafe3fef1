// SPDX-License-Identifier: Apache-2.0
// Platform: the interface through which the Metal profiler uses the operating system and Metal.
//
// csrc/backends/metal/metal_platform.mm implements it on macOS; tests have an implementation of
// their own. The profiler holds no lock of its own while it calls any of these functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {

// What happens to a stream's command buffer when profiled work ends. The numbers are PyTorch's.
enum class SyncType : uint8_t {
  NONE = 0,                 // nothing: more work is encoded into the same command buffer
  COMMIT = 1,               // commit
  COMMIT_AND_WAIT = 2,      // commit, and wait until the GPU has completed it
  COMMIT_AND_CONTINUE = 3,  // commit, and go on encoding (MPSCommandBuffer's commitAndContinue)
  COMMIT_ADAPTIVE = 4,      // commit if the stream finds that enough work has been encoded
};

// When a command buffer ran, in seconds of the host's clock (Platform::host_time_s()). Zero: not
// known.
struct BufferTimes {
  double gpu_start_s = 0, gpu_end_s = 0;
  double kernel_start_s = 0, kernel_end_s = 0;  // when the CPU scheduled it
  uint64_t buffer = 0;                          // identifies the command buffer among those alive
  std::string label;                            // of the command buffer; may be empty
  std::string error;  // why the GPU stopped executing it; empty if it completed

  double gpu_ms() const noexcept { return milliseconds(gpu_start_s, gpu_end_s); }
  double kernel_ms() const noexcept { return milliseconds(kernel_start_s, kernel_end_s); }

 private:
  static double milliseconds(double begin_s, double end_s) noexcept {
    return end_s > begin_s ? (end_s - begin_s) * 1e3 : 0.0;
  }
};

// A command queue.
struct Queue {
  uint64_t id = 0;  // identifies the queue in this process
  int32_t device_index = 0;
  std::string name;  // its label, or empty
};

// A command queue and the command buffer into which work is being encoded. Functions are called on
// the thread that encodes, handlers on any thread.
class Stream {
 public:
  virtual ~Stream() = default;
  // Call `run` once when the current command buffer has been scheduled; when it has been completed.
  virtual void on_scheduled(std::function<void()> run) = 0;
  virtual void on_completed(std::function<void(const BufferTimes&)> run) = 0;
  virtual void synchronize(SyncType sync) = 0;
  virtual Queue queue() = 0;
  // Identifies the current command buffer among those alive, as BufferTimes::buffer.
  virtual uint64_t buffer() = 0;
  // Adds a name to the label of the current command buffer, unless the program has set one. May
  // have no effect.
  virtual void add_label(const std::string& /*name*/) {}
};

// Signposts of os_log: marks that Instruments shows.
enum class SignpostLog : uint8_t { events = 0, intervals = 1 };
enum class SignpostName : uint8_t { operation = 0, copy = 1, cpu_fallback = 2, range = 3 };

// Any thread.
class Signposts {
 public:
  virtual ~Signposts() = default;
  // Creates the log if it does not exist yet. False if the system refuses.
  virtual bool open(SignpostLog log) = 0;
  // Whether a tool records the log.
  virtual bool enabled(SignpostLog log) = 0;
  // A new identifier, never 0. With a pointer, that which stands for the pointer.
  virtual uint64_t make_id(SignpostLog log, const void* pointer) = 0;
  virtual void event(SignpostName name, uint64_t id, const char* text) = 0;
  virtual void begin(SignpostName name, uint64_t id, const char* text) = 0;
  virtual void end(SignpostName name, uint64_t id) = 0;
};

// Captures of GPU work into documents of Xcode.
class CaptureDevice {
 public:
  virtual ~CaptureDevice() = default;
  // Whether this process may write documents: MTL_CAPTURE_ENABLED=1, or Xcode runs it.
  virtual bool supports_documents() = 0;
  virtual bool is_capturing() = 0;
  // Captures a stream's queue, or the whole device if `stream` is null. Returns false and the
  // system's description of the error.
  virtual bool start(const std::string& path, Stream* stream, std::string& error) = 0;
  virtual void stop() = 0;
};

// Command buffers that programs commit, whoever made them. Called on the committing thread, before
// and after the commit.
class CommitObserver {
 public:
  virtual ~CommitObserver() = default;
  // stream: encodes into the buffer that is about to be committed. A synchronize() of it with
  // COMMIT_AND_WAIT makes the program's commit wait for completion; other ways have no effect.
  // What is returned is passed to committed(), unless it is null.
  virtual std::shared_ptr<void> committing(Stream& stream, const std::string& label) noexcept = 0;
  virtual void committed(const std::shared_ptr<void>& commit) noexcept = 0;
};

class Platform {
 public:
  virtual ~Platform() = default;
  // Empty if work can be profiled here; else the reason. Any thread.
  virtual std::string problem() = 0;
  // The clock of BufferTimes, now.
  virtual double host_time_s() = 0;
  virtual Signposts& signposts() = 0;
  virtual CaptureDevice& capture_device() = 0;
  // The stream of work for which the program names none; null if there is none.
  virtual Stream* default_stream() = 0;
  // Commits what has been encoded on every stream that is known, and waits for it. May raise.
  virtual void synchronize_all() = 0;
  // Starts to report commits of all command queues; null: stops. Returns false and the reason if
  // they cannot be observed.
  virtual bool observe_commits(std::shared_ptr<CommitObserver> observer, std::string& reason) = 0;
};

}  // namespace metal
FASTPROF_NAMESPACE_END
