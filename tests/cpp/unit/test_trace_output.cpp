// SPDX-License-Identifier: Apache-2.0
// What carries the bytes of a trace: the buffer, the file that appears whole or not at all, and the
// reports of progress.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

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
using recorder_checks::in_child;
using namespace text_checks;

namespace {

// What commit() says; "" if it succeeds.
std::string said_by_commit(TraceFile& file) {
  try {
    file.commit();
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

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

TEST(a_buffer_passes_on_what_it_holds_when_the_next_does_not_fit) {
  Sink sink;
  ByteBuffer out(&Sink::write, &sink, 2000);
  CHECK_EQ(out.bytes(), 0u);
  out.flush();  // of nothing: writes nothing
  out.append(std::string(1500, 'a'));
  out.append(std::string(500, 'b'));  // is full, which is no reason to write
  CHECK_EQ(out.bytes(), 2000u);
  CHECK(sink.pieces.empty());
  out.append("c");
  CHECK_EQ(sink.pieces.size(), 1u);
  CHECK_EQ(sink.pieces[0], std::string(1500, 'a') + std::string(500, 'b'));
  out.append(std::string(2000, 'd'));  // as large as the buffer: is kept
  CHECK_EQ(sink.pieces.size(), 2u);
  CHECK_EQ(sink.pieces[1], std::string("c"));
  out.append(std::string(2001, 'e'));  // larger: passed on behind what was there
  CHECK_EQ(sink.pieces.size(), 4u);
  CHECK_EQ(sink.pieces[2], std::string(2000, 'd'));
  CHECK_EQ(sink.pieces[3], std::string(2001, 'e'));
  CHECK_EQ(out.bytes(), 6002u);
  out.append("f");
  out.flush();
  out.flush();
  CHECK_EQ(sink.pieces.size(), 5u);
  CHECK_EQ(out.bytes(), 6003u);
  CHECK(out.ok());
}

TEST(a_buffer_makes_room) {
  Sink sink;
  ByteBuffer least(&Sink::write, &sink, 1);  // the least is the most that room() gives
  std::memset(least.room(1024), 'x', 1024);
  least.advance(least.room(0) + 24);
  least.room(1000);
  CHECK(sink.pieces.empty());
  least.room(1001);
  CHECK_EQ(sink.pieces.size(), 1u);
  CHECK_EQ(sink.pieces[0], std::string(24, 'x'));
  CHECK_EQ(least.bytes(), 24u);
}

TEST(a_buffer_that_failed_discards_the_rest) {
  for (const bool large : {false, true}) {
    Sink sink;
    sink.fails_at = 0;
    ByteBuffer out(&Sink::write, &sink, 1024);
    out.append(std::string(large ? 5000 : 10, 'a'));
    out.flush();
    CHECK(!out.ok());
    CHECK_EQ(sink.pieces.size(), 1u);
    out.append(std::string(5000, 'b'));
    out.append("c");
    out.flush();
    CHECK(!out.ok());
    CHECK_EQ(sink.pieces.size(), 1u);
    CHECK_EQ(out.bytes(), large ? 10001u : 5011u);
  }
}

TEST(a_block_copies_itself_and_at_most_to_the_next_16) {
  for (const size_t size : {0, 1, 15, 16, 17, 31, 32, 33}) {
    const std::string text = std::string("0123456789abcdefghijklmnopqrstuvwxyz").substr(0, size);
    const ByteBlock block(text);
    CHECK_EQ(block.size(), size);
    char to[80];
    std::memset(to, '-', sizeof to);
    CHECK_EQ(block.copy(to) - to, static_cast<std::ptrdiff_t>(size));
    CHECK_EQ(std::string(to, size), text);
    const size_t whole = size == 0 ? 0 : size <= 16 ? 16 : size <= 32 ? 32 : 48;
    CHECK_EQ(std::string(to + whole, sizeof to - whole), std::string(sizeof to - whole, '-'));
  }
  CHECK_EQ(ByteBlock().size(), 0u);
}

TEST(a_stream_needs_no_more_than_write) {
  struct Text {
    std::string text;
    void write(const char* data, std::ptrdiff_t size) {
      text.append(data, static_cast<size_t>(size));
    }
  } plain;
  CaptureBuilder b;
  b.track(1, "main");
  const uint64_t written_bytes = write_chrome_trace(b.finish(), plain);
  CHECK_EQ(written_bytes, plain.text.size());
  CHECK(is_json_value(plain.text));
}

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

TEST(a_write_that_failed_is_no_progress) {
  Told told;
  trace_output::ReportingFile to{TraceFile("/dev/full"), {&Told::call, &told}};
  const std::string text(5 * kMegabyte, 'x');
  CHECK(!to.write(&to, text.data(), text.size()));
  CHECK(told.bytes.empty());
  const std::string said = said_by_commit(to.file);
  CHECK(has(said, "cannot write '/dev/full': " + std::string(std::strerror(ENOSPC))));
  CHECK(has(said, "Free space, or choose another path."));
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
  std::string said;
  try {
    write_chrome_trace(capture, path, options);
  } catch (const IoError& error) {
    said = error.what();
  }
  CHECK_EQ(told.bytes.size(), 2u);
  CHECK(has(said, std::strerror(ECANCELED)));
  CHECK(!has(said, "Free space"));
  CHECK_EQ(contents(path), std::string("old"));
  CHECK_EQ(folder.names().size(), 2u);
  // Without anyone to tell, it is written all the same.
  CHECK_EQ(write_chrome_trace(capture, path), size);  // a name as long is in the trace
}

TEST(cancelled_files_take_nothing_more) {
  TemporaryFolder folder;
  TraceFile file(folder.path + "/trace");
  CHECK(file.write("abc", 3));
  CHECK_EQ(folder.names().size(), 1u);
  file.cancel();
  CHECK(!file.write("def", 3));
  CHECK(has(said_by_commit(file), std::strerror(ECANCELED)));
  CHECK(folder.names().empty());
  {
    TraceFile left(folder.path + "/trace");
    CHECK(left.write("abc", 3));
  }
  CHECK(folder.names().empty());
}

TEST(a_name_that_became_a_folder_is_told) {
  TemporaryFolder folder;
  const std::string path = folder.path + "/trace";
  TraceFile file(path);
  CHECK_EQ(mkdir(path.c_str(), 0700), 0);
  CHECK(has(said_by_commit(file), "cannot write '" + path + "'"));
  CHECK_EQ(folder.names().size(), 1u);
  rmdir(path.c_str());
}

// The temporary file of another process, in another pid namespace, may have the same name.
TEST(names_of_temporary_files_that_are_taken_are_left_alone) {
  TemporaryFolder folder;
  const std::string path = folder.path + "/trace";
  const auto take = [&](unsigned count) {
    const unsigned next = trace_file_counter.load();
    for (unsigned i = 0; i < count; ++i)
      std::ofstream(path + ".part-" + std::to_string(getpid()) + '-' + std::to_string(next + i))
          << "theirs";
  };
  take(99);
  {
    TraceFile file(path);
    CHECK(file.write("ours", 4));
    file.commit();
  }
  CHECK_EQ(contents(path), std::string("ours"));
  std::vector<std::string> names = folder.names();
  CHECK_EQ(names.size(), 100u);
  for (const std::string& name : names)
    if (name != "trace") CHECK_EQ(contents(folder.path + '/' + name), std::string("theirs"));
  take(100);
  std::string said;
  try {
    TraceFile file(path);
  } catch (const IoError& error) {
    said = error.what();
  }
  CHECK(has(said, "cannot create '" + path + "': " + std::strerror(EEXIST)));
  CHECK_EQ(folder.names().size(), 200u);
}

// A descriptor may be any number, 0 as well, whatever errno says of an earlier call.
TEST(files_may_have_descriptor_0) {
  for (const int earlier : {0, EEXIST, EINTR}) {
    TemporaryFolder folder;
    const std::string path = folder.path + "/trace";
    CHECK_EQ(in_child([&] {
               ::close(0);
               {
                 errno = earlier;
                 TraceFile file(path);
                 if (folder.names().size() != 1 || ::fcntl(0, F_GETFD) != FD_CLOEXEC) return 1;
               }
               if (::fcntl(0, F_GETFD) != -1 || !folder.names().empty()) return 2;
               {
                 errno = earlier;
                 TraceFile direct("/dev/null");
                 if (::fcntl(0, F_GETFD) != FD_CLOEXEC || !direct.write("abc", 3)) return 3;
               }
               TraceFile file(path);
               if (!file.write("abc", 3)) return 4;
               file.commit();
               return contents(path) == "abc" ? 0 : 5;
             }),
             0);
  }
}

TEST(a_committed_file_closes_nothing_else) {
  TemporaryFolder folder;
  int next = -1;
  {
    TraceFile file(folder.path + "/trace");
    file.commit();
    next = ::open("/dev/null", O_WRONLY | O_CLOEXEC);  // gets the number that became free
  }
  CHECK_EQ(::fcntl(next, F_GETFD), FD_CLOEXEC);
  ::close(next);
  CHECK_EQ(folder.names().size(), 1u);
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
