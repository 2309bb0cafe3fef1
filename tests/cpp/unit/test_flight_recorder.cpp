// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: dumps of a process that is recording have no torn record, no hole and no record
// of another thread; the file is gone after the end and stays after a kill.
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <thread>

#include "backing_file_checks.hpp"
#include "fastprof/flight_recorder.hpp"
#include "threads_in_children.hpp"

using namespace recorder_checks;
using namespace backing_file_checks;

namespace {

fp::FlightOptions small() {
  fp::FlightOptions options;
  options.max_bytes = 4 << 20;
  options.metadata = {{"role", "test"}};
  return options;
}

// Counts upwards in ranges, until `end`.
void count(const std::atomic<bool>& end, uint64_t thread) {
  for (uint64_t i = 0; !end.load(std::memory_order_relaxed); ++i) {
    FASTPROF_RANGE_ARGS("count", "thread", thread, "i", i);
  }
}

// Checks that each thread's ranges count upwards without a hole; returns how many there are.
size_t check_counts(const std::string& path) {
  const fp::Recovered found = fp::recover(path);
  const fp::Capture& capture = found.capture;
  fp::validate_capture(capture);
  CHECK_EQ(found.unread_chunks + found.unknown_texts + found.damaged, 0);
  std::vector<uint64_t> last(64, UINT64_MAX), track(64, UINT64_MAX);
  const std::vector<size_t> rows = rows_named(capture, "count");
  for (const size_t row : rows) {
    const uint64_t* words = &capture.payload_words[capture.payload[row]];
    const uint64_t thread = words[0] % 64;
    if (last[thread] != UINT64_MAX) CHECK_EQ(words[1], last[thread] + 1);
    if (track[thread] != UINT64_MAX) CHECK_EQ(track[thread], capture.track[row]);
    last[thread] = words[1];
    track[thread] = capture.track[row];
  }
  return rows.size();
}

}  // namespace

TEST(dumps_of_a_recording_process_are_whole) {
  const Folder folder;
  ::setenv("FASTPROF_PROCESS_FOLDER", folder.path().c_str(), 1);
  std::string records;
  {
    fp::FlightRecorder recorder(small());
    records = recorder.records();
    std::atomic<bool> end{false};
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 4; ++i) threads.emplace_back([&end, i] { count(end, i); });
    size_t rows = 0;
    for (int i = 0; i < 40; ++i) {
      ::unlink(folder.file("b").c_str());
      recorder.dump(folder.file("b"), "test", std::to_string(i));
      rows += check_counts(folder.file("b"));
      std::this_thread::sleep_for(std::chrono::milliseconds(i % 4 * 5));
    }
    end = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(rows > 1000);
    const fp::Recovered found = fp::recover(folder.file("b"));
    CHECK_EQ(found.metadata.size(), 4);
    CHECK_EQ(found.metadata[0].second, "test");
    CHECK_EQ(found.metadata[3].first, "detail");
    CHECK_THROWS(fp::IoError, recorder.dump(folder.file("b"), "again"));
  }
  CHECK(!exists(records));
}

TEST(records_of_a_killed_process_are_found_and_read) {
  const Folder folder;
  ::setenv("FASTPROF_PROCESS_FOLDER", folder.path().c_str(), 1);
  for (int i = 0; i < 20; ++i) {
    const std::string name = folder.file("a"), copy = folder.file("b");
    CHECK_EQ(killed([&] {
               fp::FlightRecorder recorder(small());
               CHECK_EQ(::symlink(recorder.records().c_str(), name.c_str()), 0);
               std::atomic<bool> end{false};
               std::thread other([&] { count(end, 1); });
               std::thread killer([i] {
                 std::this_thread::sleep_for(std::chrono::milliseconds(5 + i));
                 ::raise(SIGKILL);
               });
               count(end, 0);
             }),
             SIGKILL);
    fp::copy_backing_file(name, copy, {{"reason", "killed"}});
    CHECK_EQ(check_counts(name), check_counts(copy));
    char records[512] = {};
    CHECK(::readlink(name.c_str(), records, sizeof records - 1) > 0);
    for (const char* path : {static_cast<const char*>(records), name.c_str(), copy.c_str()})
      ::unlink(path);
  }
}

TEST(what_is_wrong_is_said) {
  const Folder folder;
  ::setenv("FASTPROF_PROCESS_FOLDER", folder.path().c_str(), 1);
  fp::FlightOptions options = small();
  options.max_bytes = 1000;
  CHECK_THROWS(fp::ValueError, fp::FlightRecorder{options});
  for (const double seconds : {0.0, -5.0, 1e300, std::nan("")}) {
    options = small();
    options.seconds = seconds;
    CHECK_THROWS(fp::ValueError, fp::FlightRecorder{options});
  }
  ::chmod(folder.path().c_str(), 0755);
  CHECK_THROWS(fp::UnavailableError, fp::FlightRecorder{small()});
  ::chmod(folder.path().c_str(), 0700);
  CHECK_THROWS(fp::IoError, fp::copy_backing_file(folder.file(), folder.file("b")));
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{1} << 20}) {
    const std::string other = folder.path() + "/" + std::to_string(bytes);
    std::ofstream(other) << std::string(bytes, 'x');
    CHECK_THROWS(fp::FormatError, fp::copy_backing_file(other, folder.file("b")));
    CHECK(!exists(folder.file("b")));
    ::unlink(other.c_str());
  }
  fp::FlightRecorder recorder(small());
  const std::vector<std::pair<std::string, std::string>> large{{"a", std::string(3 << 20, 'x')}};
  CHECK_THROWS(fp::ValueError, fp::copy_backing_file(recorder.records(), folder.file("b"), large));
  CHECK(!exists(folder.file("b")));
}
