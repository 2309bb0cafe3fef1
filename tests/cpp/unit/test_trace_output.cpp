// SPDX-License-Identifier: Apache-2.0
// What carries the bytes of a trace: the buffer, the file that appears whole or not at all, and the
// reports of progress.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/trace_output.hpp"
#include "recorder_checks.hpp"
#include "temporary_folder.hpp"
#include "text_checks.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;
using fastprof_test::TemporaryFolder;
using namespace text_checks;

namespace {

// Takes the writes of a buffer, and fails from the nth on.
struct Sink {
  std::vector<std::string> pieces;
  size_t fails_at = SIZE_MAX;

  static bool write(void* self, const char* data, size_t size) {
    auto* to = static_cast<Sink*>(self);
    to->pieces.emplace_back(data, size);
    return to->pieces.size() <= to->fails_at;
  }
};

// The progress that was told, until it is told `limit` times.
struct Told {
  std::vector<uint64_t> bytes;
  size_t limit = SIZE_MAX;

  static bool call(void* self, uint64_t bytes) {
    auto* told = static_cast<Told*>(self);
    told->bytes.push_back(bytes);
    return told->bytes.size() < told->limit;
  }
};

// A capture whose trace takes more than `megabytes`.
Capture large_capture(size_t megabytes) {
  CaptureBuilder b;
  const uint32_t site =
      b.site("x", EventKind::range, "user_annotation", {{"text", ArgType::string}});
  const uint64_t text = b.string(std::string(1 << 16, 'x'));
  b.track(1, "main");
  for (size_t i = 0; i < 16 * megabytes; ++i)
    b.row(site, static_cast<int64_t>(2 * i), static_cast<int64_t>(2 * i + 1), {text});
  return b.finish();
}

constexpr uint64_t kMegabyte = 1048576;

}  // namespace

TEST(progress_is_told_every_4_megabytes) {
  TemporaryFolder folder;
  const std::string path = folder.path + "/trace";
  Told told;
  trace_output::ReportingFile to{TraceFile(path), {&Told::call, &told}};
  const std::string megabyte(kMegabyte, 'x');
  for (int i = 0; i < 3; ++i) CHECK(to.write(&to, megabyte.data(), megabyte.size()));
  CHECK(to.write(&to, megabyte.data(), megabyte.size() - 1));
  CHECK(told.bytes.empty());
  CHECK(to.write(&to, "y", 1));
  CHECK(told.bytes == std::vector<uint64_t>{4 * kMegabyte});
  // The next step counts from the last report.
  for (int i = 0; i < 3; ++i) CHECK(to.write(&to, megabyte.data(), megabyte.size()));
  CHECK(to.write(&to, megabyte.data(), megabyte.size() - 1));
  CHECK_EQ(told.bytes.size(), 1u);
  CHECK(to.write(&to, "yy", 2));
  CHECK(told.bytes == (std::vector<uint64_t>{4 * kMegabyte, 8 * kMegabyte + 1}));
  to.file.commit();
  CHECK_EQ(contents(path).size(), 8 * kMegabyte + 1);
}

TEST(a_write_may_be_cancelled) {
  TemporaryFolder folder;
  const std::string path = folder.path + "/trace.json";
  std::ofstream(path) << "old";
  const Capture capture = large_capture(13);
  Told told;
  ChromeTraceOptions options;
  options.progress = {&Told::call, &told};
  const uint64_t size = write_chrome_trace(capture, folder.path + "/whole.json", options);
  CHECK_EQ(told.bytes.size(), 3u);
  CHECK(told.bytes.back() <= size);
  told = {};
  told.limit = 2;
  const std::string said = message_of<IoError>([&] { write_chrome_trace(capture, path, options); });
  CHECK_EQ(told.bytes.size(), 2u);
  CHECK(has(said, std::strerror(ECANCELED)));
  CHECK(!has(said, "Free space"));
  CHECK_EQ(contents(path), std::string("old"));
  CHECK_EQ(folder.names().size(), 2u);
  // Without anyone to tell, it is written all the same.
  CHECK_EQ(write_chrome_trace(capture, path), size);  // a name as long is in the trace
}

// Signals interrupt writes to a pipe, which then take a part, or nothing.
TEST(interrupted_writes_go_on) {
  TemporaryFolder folder;
  const std::string path = folder.path + "/pipe";
  CHECK_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::string text;
  for (int i = 0; text.size() < 1000000; ++i) text += std::to_string(i) + ' ';
  struct sigaction interrupt = {}, before = {};
  interrupt.sa_handler = [](int) {};  // without SA_RESTART
  sigaction(SIGUSR1, &interrupt, &before);
  std::atomic<bool> done{false};
  bool written = false;
  std::thread writer([&] {
    TraceFile file(path);
    written = file.write(text.data(), text.size());
    file.commit();
    done.store(true);
  });
  std::string read_back;
  std::vector<char> piece(50000);
  while (read_back.size() < text.size()) {
    const bool at_end = done.load();
    int waiting = 0;
    ioctl(reader, FIONREAD, &waiting);
    if (!at_end) {
      // A full pipe that nobody reads: the write is interrupted before its first byte, or behind
      // some.
      for (int i = 0; i < 3; ++i) {
        pthread_kill(writer.native_handle(), SIGUSR1);
        std::this_thread::yield();
      }
    }
    const ssize_t size = ::read(reader, piece.data(), piece.size());
    if (size > 0) read_back.append(piece.data(), static_cast<size_t>(size));
    if (size <= 0 && at_end) break;
  }
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
  ::close(reader);
  CHECK(written);
  CHECK(read_back == text);
}
