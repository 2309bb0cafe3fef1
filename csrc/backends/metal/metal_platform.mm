// SPDX-License-Identifier: Apache-2.0
// Apple's Metal as a metal::Platform: signposts of os_log, streams of command queues, captures by
// MTLCaptureManager. Compiled with and without automatic reference counting.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#include <mach/mach_time.h>
#include <os/log.h>
#include <os/signpost.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/metal/commit_observation.hpp"
#include "backends/metal/metal_platform.hpp"
#include "backends/metal/ownership.hpp"
#include "fastprof/base/error.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace metal {
namespace {

std::string text_of(NSString* text) {
  const char* const bytes = text != nil ? [text UTF8String] : nullptr;
  return bytes != nullptr ? bytes : "";
}

// ---- signposts ----

// The names of signposts and their formats must be literals: the system stores their addresses.
#define FASTPROF_OPERATION "Metal operation"
#define FASTPROF_COPY "Metal copy"
#define FASTPROF_CPU_FALLBACK "CPU fallback"
#define FASTPROF_ANY_RANGE "Range"

class AppleSignposts final : public Signposts {
 public:
  bool open(SignpostLog log) override {
    const std::lock_guard<std::mutex> hold(lock_);
    os_log_t& made = logs_[index(log)];
    if (made == nullptr)
      made = os_log_create("fastprof.metal", log == SignpostLog::events ? "Events" : "Intervals");
    return made != nullptr;
  }
  bool enabled(SignpostLog log) override {
    const os_log_t made = log_of(log);
    return made != nullptr && os_signpost_enabled(made);
  }
  uint64_t make_id(SignpostLog log, const void* pointer) override {
    const os_log_t made = log_of(log);
    if (made == nullptr) return 0;
    return pointer != nullptr ? os_signpost_id_make_with_pointer(made, pointer)
                              : os_signpost_id_generate(made);
  }
  void event(SignpostName name, uint64_t id, const char* text) override {
    const os_log_t log = log_of(SignpostLog::events);
    switch (name) {
      case SignpostName::operation:
        os_signpost_event_emit(log, id, FASTPROF_OPERATION, "%{public}s", text);
        break;
      case SignpostName::copy:
        os_signpost_event_emit(log, id, FASTPROF_COPY, "%{public}s", text);
        break;
      case SignpostName::cpu_fallback:
        os_signpost_event_emit(log, id, FASTPROF_CPU_FALLBACK, "%{public}s", text);
        break;
      case SignpostName::range:
        os_signpost_event_emit(log, id, FASTPROF_ANY_RANGE, "%{public}s", text);
        break;
    }
  }
  void begin(SignpostName name, uint64_t id, const char* text) override {
    const os_log_t log = log_of(SignpostLog::intervals);
    switch (name) {
      case SignpostName::operation:
        os_signpost_interval_begin(log, id, FASTPROF_OPERATION, "%{public}s", text);
        break;
      case SignpostName::copy:
        os_signpost_interval_begin(log, id, FASTPROF_COPY, "%{public}s", text);
        break;
      case SignpostName::cpu_fallback:
        os_signpost_interval_begin(log, id, FASTPROF_CPU_FALLBACK, "%{public}s", text);
        break;
      case SignpostName::range:
        os_signpost_interval_begin(log, id, FASTPROF_ANY_RANGE, "%{public}s", text);
        break;
    }
  }
  void end(SignpostName name, uint64_t id) override {
    const os_log_t log = log_of(SignpostLog::intervals);
    switch (name) {
      case SignpostName::operation:
        os_signpost_interval_end(log, id, FASTPROF_OPERATION);
        break;
      case SignpostName::copy:
        os_signpost_interval_end(log, id, FASTPROF_COPY);
        break;
      case SignpostName::cpu_fallback:
        os_signpost_interval_end(log, id, FASTPROF_CPU_FALLBACK);
        break;
      case SignpostName::range:
        os_signpost_interval_end(log, id, FASTPROF_ANY_RANGE);
        break;
    }
  }

 private:
  static size_t index(SignpostLog log) noexcept { return static_cast<size_t>(log); }
  os_log_t log_of(SignpostLog log) {
    const std::lock_guard<std::mutex> hold(lock_);
    return logs_[index(log)];
  }

  std::mutex lock_;
  os_log_t logs_[2] = {nullptr, nullptr};  // live as long as the process
};

// ---- streams ----

class AppleStream;

// Streams that exist, for synchronize_all(). Never destroyed.
struct LiveStreams {
  std::mutex lock;
  std::vector<AppleStream*> streams;

  static LiveStreams& all() {
    static auto* const only = new LiveStreams;
    return *only;
  }
};

class AppleStream final : public QueueStream {
 public:
  explicit AppleStream(id<MTLCommandQueue> queue) : queue_(FASTPROF_RETAINED(queue)) {
    LiveStreams& all = LiveStreams::all();
    const std::lock_guard<std::mutex> hold(all.lock);
    all.streams.push_back(this);
  }
  ~AppleStream() override {
    {
      LiveStreams& all = LiveStreams::all();
      const std::lock_guard<std::mutex> hold(all.lock);
      all.streams.erase(std::remove(all.streams.begin(), all.streams.end(), this),
                        all.streams.end());
    }
    // A command buffer that is never committed never calls its handlers.
    synchronize(SyncType::COMMIT);
    FASTPROF_RELEASE(last_);
    FASTPROF_RELEASE(queue_);
  }

  void* command_buffer() override {
    const std::lock_guard<std::recursive_mutex> hold(lock_);
    @autoreleasepool {
      if (buffer_ == nil) buffer_ = FASTPROF_RETAINED([queue_ commandBuffer]);
    }
    if (buffer_ == nil)
      raise<UnavailableError>("the Metal command queue made no command buffer: the device may "
                              "have been removed, or too many are uncommitted");
    return (__bridge void*)buffer_;
  }
  void on_scheduled(std::function<void()> run) override {
    const std::lock_guard<std::recursive_mutex> hold(lock_);
    on_buffer_scheduled(command_buffer(), std::move(run));
  }
  void on_completed(std::function<void(const BufferTimes&)> run) override {
    const std::lock_guard<std::recursive_mutex> hold(lock_);
    on_buffer_completed(command_buffer(), std::move(run));
    ++works_;
  }
  void synchronize(SyncType sync) override {
    if (sync == SyncType::NONE) return;
    id<MTLCommandBuffer> last = commit(sync == SyncType::COMMIT_ADAPTIVE ? kAdaptiveWorks : 0);
    if (sync == SyncType::COMMIT_AND_WAIT) [last waitUntilCompleted];
    FASTPROF_RELEASE(last);
  }
  // Commits if there are at least `least_works` profiled works. Returns the command buffer that was
  // committed last, to be released by the caller; nil if there is none. A queue completes its
  // buffers in order, so waiting for the last one waits for all.
  id<MTLCommandBuffer> commit(int least_works) __attribute__((ns_returns_retained)) {
    const std::lock_guard<std::recursive_mutex> hold(lock_);
    if (buffer_ != nil && works_ >= least_works) {
      [buffer_ commit];
      FASTPROF_RELEASE(last_);
      last_ = buffer_;  // the reference moves
      buffer_ = nil;
      works_ = 0;
      label_.clear();
    }
    return FASTPROF_RETAINED(last_);
  }
  Queue queue() override {
    const std::lock_guard<std::recursive_mutex> hold(lock_);
    return queue_of_buffer(command_buffer());
  }
  uint64_t buffer() override { return buffer_id(command_buffer()); }
  void add_label(const std::string& name) override {
    const std::lock_guard<std::recursive_mutex> hold(lock_);
    @autoreleasepool {
      const id<MTLCommandBuffer> buffer = (__bridge id<MTLCommandBuffer>)command_buffer();
      if (label_.empty() && [[buffer label] length] != 0) return;  // the program's own
      if (label_.size() > kMaxLabelBytes) return;
      label_ += (label_.empty() ? "" : ", ") + name;
      [buffer setLabel:[NSString stringWithUTF8String:label_.c_str()]];
    }
  }

 private:
  // A label that is longer gets no further names.
  static constexpr size_t kMaxLabelBytes = 200;

  std::recursive_mutex lock_;
  id<MTLCommandQueue> queue_;
  id<MTLCommandBuffer> buffer_ = nil;  // not committed
  id<MTLCommandBuffer> last_ = nil;    // committed last
  int works_ = 0;                      // profiled works in buffer_
  std::string label_;                  // of buffer_, as far as add_label() made it
};

// ---- captures ----

class AppleCaptures final : public CaptureDevice {
 public:
  bool supports_documents() override {
    return [[MTLCaptureManager sharedCaptureManager]
        supportsDestination:MTLCaptureDestinationGPUTraceDocument];
  }
  bool is_capturing() override { return [[MTLCaptureManager sharedCaptureManager] isCapturing]; }
  bool start(const std::string& path, Stream* stream, std::string& error) override {
    @autoreleasepool {
      id object = nil;
      if (auto* const queue_stream = dynamic_cast<QueueStream*>(stream)) {
        object = [(__bridge id<MTLCommandBuffer>)queue_stream->command_buffer() commandQueue];
      } else {
        object = FASTPROF_AUTORELEASED(MTLCreateSystemDefaultDevice());
      }
      if (object == nil) {
        error = "there is no Metal device";
        return false;
      }
      MTLCaptureDescriptor* const descriptor =
          FASTPROF_AUTORELEASED([[MTLCaptureDescriptor alloc] init]);
      descriptor.captureObject = object;
      descriptor.destination = MTLCaptureDestinationGPUTraceDocument;
      descriptor.outputURL = [NSURL fileURLWithPath:[NSString stringWithUTF8String:path.c_str()]];
      NSError* failure = nil;
      if ([[MTLCaptureManager sharedCaptureManager] startCaptureWithDescriptor:descriptor
                                                                         error:&failure])
        return true;
      error = failure != nil ? text_of([failure localizedDescription]) : "no reason was given";
      return false;
    }
  }
  void stop() override { [[MTLCaptureManager sharedCaptureManager] stopCapture]; }
};

class ApplePlatform final : public Platform {
 public:
  std::string problem() override {
    @autoreleasepool {
      const id<MTLDevice> device = FASTPROF_AUTORELEASED(MTLCreateSystemDefaultDevice());
      return device != nil ? "" : "this machine has no GPU that supports Metal";
    }
  }
  // Mach time, like CACurrentMediaTime(); GPUStartTime and the other times of a buffer use it.
  double host_time_s() override {
    static const double s_per_unit = [] {
      mach_timebase_info_data_t base;
      mach_timebase_info(&base);
      return 1e-9 * static_cast<double>(base.numer) / static_cast<double>(base.denom);
    }();
    return static_cast<double>(mach_absolute_time()) * s_per_unit;
  }
  Signposts& signposts() override { return signposts_; }
  CaptureDevice& capture_device() override { return captures_; }
  Stream* default_stream() override {
    if (Stream* const torch = torch_stream()) return torch;
    LiveStreams& all = LiveStreams::all();
    const std::lock_guard<std::mutex> hold(all.lock);
    return all.streams.size() == 1 ? all.streams.front() : nullptr;
  }
  void synchronize_all() override {
    std::vector<id<MTLCommandBuffer>> last;
    {
      LiveStreams& all = LiveStreams::all();
      const std::lock_guard<std::mutex> hold(all.lock);
      for (AppleStream* stream : all.streams) last.push_back(stream->commit(0));
    }
    // Without the lock: handlers may create streams, and waitUntilCompleted returns after the
    // handlers have run.
    for (auto& buffer : last) {
      [buffer waitUntilCompleted];
      FASTPROF_RELEASE(buffer);
    }
    synchronize_torch_streams();
  }
  bool observe_commits(std::shared_ptr<CommitObserver> observer, std::string& reason) override {
    return metal::observe_commits(std::move(observer), reason);
  }

 private:
  AppleSignposts signposts_;
  AppleCaptures captures_;
};

}  // namespace

Platform& metal_platform() {
  static auto* const only = new ApplePlatform;  // handlers may run while the process exits
  return *only;
}

std::unique_ptr<QueueStream> make_queue_stream(void* command_queue) {
  if (command_queue == nullptr) raise<ValueError>("the Metal command queue is nil");
  return std::make_unique<AppleStream>((__bridge id<MTLCommandQueue>)command_queue);
}

void on_buffer_scheduled(void* command_buffer, std::function<void()> run) {
  [(__bridge id<MTLCommandBuffer>)command_buffer addScheduledHandler:^(id<MTLCommandBuffer>) {
    run();
  }];
}

void on_buffer_completed(void* command_buffer, std::function<void(const BufferTimes&)> run) {
  [(__bridge id<MTLCommandBuffer>)command_buffer
      addCompletedHandler:^(id<MTLCommandBuffer> completed) {
        run(times_of_buffer((__bridge void*)completed));
      }];
}

BufferTimes times_of_buffer(void* command_buffer) {
  BufferTimes times;
  @autoreleasepool {
    const id<MTLCommandBuffer> buffer = (__bridge id<MTLCommandBuffer>)command_buffer;
    times.gpu_start_s = [buffer GPUStartTime];
    times.gpu_end_s = [buffer GPUEndTime];
    times.kernel_start_s = [buffer kernelStartTime];
    times.kernel_end_s = [buffer kernelEndTime];
    times.buffer = buffer_id(command_buffer);
    times.label = text_of([buffer label]);
    if ([buffer status] == MTLCommandBufferStatusError) {
      NSError* const error = [buffer error];
      times.error = error != nil ? text_of([error localizedDescription]) : "unknown error";
    }
  }
  return times;
}

std::string label_of_buffer(void* command_buffer) {
  @autoreleasepool {
    return text_of([(__bridge id<MTLCommandBuffer>)command_buffer label]);
  }
}

// Returns the index of a device in the order of first use.
static int32_t device_index(id<MTLDevice> device) {
  static std::mutex lock;
  static auto* const seen = new std::vector<uint64_t>;
  const uint64_t id = [device registryID];
  const std::lock_guard<std::mutex> hold(lock);
  const auto at = std::find(seen->begin(), seen->end(), id);
  const auto index = static_cast<int32_t>(at - seen->begin());
  if (at == seen->end()) seen->push_back(id);
  return index;
}

Queue queue_of_buffer(void* command_buffer) {
  Queue found;
  @autoreleasepool {
    const id<MTLCommandQueue> queue = [(__bridge id<MTLCommandBuffer>)command_buffer commandQueue];
    found.id = static_cast<uint64_t>(reinterpret_cast<uintptr_t>((__bridge void*)queue));
    found.name = text_of([queue label]);
    found.device_index = device_index([queue device]);
  }
  return found;
}

}  // namespace metal
FASTPROF_NAMESPACE_END
