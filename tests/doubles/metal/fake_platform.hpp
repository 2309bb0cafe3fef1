// SPDX-License-Identifier: Apache-2.0
// FakePlatform: a metal::Platform for unit tests of the portable core. Everything happens when the
// test says so, on the calling thread; what the profiler did is in `log`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fastprof/metal/platform.hpp"

namespace fakes {

class FakeStream final : public fastprof::metal::Stream {
 public:
  explicit FakeStream(std::vector<std::string>& log) : log_(log) {}

  void on_scheduled(std::function<void()> run) override { scheduled_.push_back(std::move(run)); }
  void on_completed(std::function<void(const fastprof::metal::BufferTimes&)> run) override {
    completed_.push_back(std::move(run));
  }
  void synchronize(fastprof::metal::SyncType sync) override {
    log_.push_back("synchronize " + std::to_string(static_cast<int>(sync)));
    if (sync == fastprof::metal::SyncType::COMMIT_AND_WAIT && completes_on_wait)
      complete(wait_times);
  }
  fastprof::metal::Queue queue() override { return made_queue; }
  uint64_t buffer() override { return buffer_number; }
  void add_label(const std::string& name) override { log_.push_back("label " + name); }

  void schedule() {
    for (auto& run : std::exchange(scheduled_, {})) run();
  }
  void complete(const fastprof::metal::BufferTimes& times) {
    schedule();
    for (auto& run : std::exchange(completed_, {})) run(times);
  }
  // The GPU ran gpu_ms and the CPU scheduled for kernel_ms.
  void complete(double gpu_ms, double kernel_ms) {
    fastprof::metal::BufferTimes times;
    times.gpu_start_s = 100;
    times.gpu_end_s = 100 + gpu_ms * 1e-3;
    times.kernel_start_s = 99;
    times.kernel_end_s = 99 + kernel_ms * 1e-3;
    complete(times);
  }

  bool completes_on_wait = false;
  fastprof::metal::BufferTimes wait_times;
  fastprof::metal::Queue made_queue;
  uint64_t buffer_number = 1;

 private:
  std::vector<std::string>& log_;
  std::vector<std::function<void()>> scheduled_;
  std::vector<std::function<void(const fastprof::metal::BufferTimes&)>> completed_;
};

class FakePlatform : public fastprof::metal::Platform,
                     public fastprof::metal::Signposts,
                     public fastprof::metal::CaptureDevice {
 public:
  std::vector<std::string> log;
  FakeStream stream{log};
  bool has_default_stream = true;
  double now_s = 50;
  bool opens_logs = true, enables_logs = true;
  bool supports_captures = true, capturing = false;
  std::string capture_error;  // not empty: a capture fails with it
  std::function<void()> on_synchronize_all;

  std::string problem() override { return {}; }
  double host_time_s() override { return now_s; }
  fastprof::metal::Signposts& signposts() override { return *this; }
  fastprof::metal::CaptureDevice& capture_device() override { return *this; }
  fastprof::metal::Stream* default_stream() override {
    return has_default_stream ? &stream : nullptr;
  }
  void synchronize_all() override {
    log.push_back("synchronize all");
    if (on_synchronize_all) on_synchronize_all();
  }
  bool observe_commits(std::shared_ptr<fastprof::metal::CommitObserver>,
                       std::string& reason) override {
    reason = "a fake commits nothing";
    return false;
  }

  bool open(fastprof::metal::SignpostLog which) override {
    log.push_back(which == fastprof::metal::SignpostLog::events ? "open events" : "open intervals");
    return opens_logs;
  }
  bool enabled(fastprof::metal::SignpostLog) override { return enables_logs; }
  uint64_t make_id(fastprof::metal::SignpostLog which, const void*) override {
    return (which == fastprof::metal::SignpostLog::events ? 1000 : 2000) + ++ids_;
  }
  void event(fastprof::metal::SignpostName name, uint64_t id, const char* text) override {
    note("event", name, id, text);
  }
  void begin(fastprof::metal::SignpostName name, uint64_t id, const char* text) override {
    note("begin", name, id, text);
  }
  void end(fastprof::metal::SignpostName name, uint64_t id) override { note("end", name, id, ""); }

  bool supports_documents() override { return supports_captures; }
  bool is_capturing() override { return capturing; }
  bool start(const std::string& path, fastprof::metal::Stream* of, std::string& error) override {
    log.push_back("capture " + path + (of == nullptr ? " of device" : " of stream"));
    error = capture_error;
    return capturing = capture_error.empty();
  }
  void stop() override {
    log.push_back("stop capture");
    capturing = false;
  }

 private:
  void note(const char* what, fastprof::metal::SignpostName name, uint64_t id, const char* text) {
    constexpr const char* names[] = {"operation", "copy", "fallback", "range"};
    log.push_back(std::string(what) + " " + names[static_cast<int>(name)] + " " +
                  std::to_string(id) + (*text != 0 ? ": " : "") + text);
  }
  uint64_t ids_ = 0;
};

}  // namespace fakes
