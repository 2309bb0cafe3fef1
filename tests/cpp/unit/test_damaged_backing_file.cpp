// SPDX-License-Identifier: Apache-2.0
// Damaged backing files: recover() returns a valid capture or throws FormatError, and nothing else
// happens.
#include <algorithm>
#include <random>
#include <thread>

#include "backing_file_checks.hpp"
#include "text_checks.hpp"
#include "threads_in_children.hpp"

using namespace recorder_checks;
using namespace backing_file_checks;

// Truncated files and flipped bits give a valid capture or FormatError.
TEST(damaged_files) {
  const Folder folder;
  CHECK_EQ(killed([&] {
             fp::SessionOptions options = backed(folder.file());
             options.record_shapes = true;
             options.cpp_stacks = true;
             Running session(options);
             work(40);
             std::thread([] { work(10); }).join();
             FASTPROF_RANGE("open");
             ::raise(SIGKILL);
           }),
           SIGKILL);
  const std::string good = text_checks::contents(folder.file());
  std::vector<size_t> used;  // words that are not zero: damage elsewhere does nothing
  for (size_t at = 0; at + 8 <= good.size(); at += 8)
    if (std::any_of(good.begin() + long(at), good.begin() + long(at) + 8,
                    [](char c) { return c != 0; }))
      used.push_back(at);
  std::mt19937_64 random(7);
  long read = 0, refused = 0, rows = 0;
  const long rounds = scaled(400);
  for (long round = 0; round < rounds; ++round) {
    // Pages that are zero stay holes, so that a round is quick.
    ::unlink(folder.file("b").c_str());
    const int fd = ::open(folder.file("b").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(good.size())) == 0);
    for (size_t i = 0, page = SIZE_MAX; i < used.size(); ++i) {
      if (used[i] / 4096 == page) continue;
      page = used[i] / 4096;
      CHECK(::pwrite(fd, good.data() + page * 4096, 4096, static_cast<off_t>(page * 4096)) == 4096);
    }
    const uint64_t flips = uint64_t{1} << random() % 9;
    for (uint64_t i = 0; i < flips; ++i) {
      const size_t at = used[random() % used.size()] + random() % 8;
      const uint64_t how = random() % 4;
      char byte = good[at];
      if (how == 0) byte = 0;
      if (how == 1) byte = char(-1);
      if (how == 2) byte = static_cast<char>(random());
      if (how == 3) byte = static_cast<char>(byte ^ 1 << random() % 8);
      CHECK(::pwrite(fd, &byte, 1, static_cast<off_t>(at)) == 1);
    }
    if (random() % 4 == 0) CHECK(::ftruncate(fd, static_cast<off_t>(random() % good.size())) == 0);
    ::close(fd);
    try {
      const fp::Recovered found = fp::recover(folder.file("b"));
      fp::validate_capture(found.capture);
      for (size_t row = 0; row < found.capture.size(); ++row)
        rows += !line(found.capture, row).empty();
      ++read;
    } catch (const fp::FormatError&) {
      ++refused;
    }
  }
  // Only a damaged header makes recover() refuse a file; test_backing_reader tests that.
  CHECK_EQ(read + refused, rounds);
  CHECK(read > rounds / 4);
  CHECK(rows > 0);
}
