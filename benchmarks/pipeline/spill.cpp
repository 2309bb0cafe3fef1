// SPDX-License-Identifier: Apache-2.0
// Measures the throughput of overflow policy spill_to_file: ns per range of threads that record at
// full speed with bounds that hold a fraction of the records, and the number of lost ranges. The
// limit is the same work without a spill, in memory that was written before; for comparison, the
// spilled bytes are written with pwrite(2).
//   spill [--rounds N] [--ranges N] [--json FILE] [--folder FOR_THE_FILE]
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../harness/bench.hpp"
#include "../harness/options.hpp"
#include "fastprof/fastprof.hpp"

namespace {

__attribute__((noinline)) void record(size_t ranges) {
  for (size_t i = 0; i < ranges / 4; ++i) {
    FASTPROF_RANGE("step");
    { FASTPROF_RANGE("forward"); }
    { FASTPROF_RANGE("backward"); }
    { FASTPROF_RANGE("optimizer"); }
  }
}

void record_on(size_t threads, size_t ranges) {
  std::vector<std::thread> all;
  for (size_t t = 0; t < threads; ++t) all.emplace_back(record, ranges / threads);
  for (std::thread& thread : all) thread.join();
}

// Writes the bytes of n ranges, a chunk at a time, to an unnamed temporary file.
void write_bytes(const std::string& folder, size_t ranges) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR, 0600);
  if (fd < 0) std::abort();
  std::vector<char> chunk(fastprof::kChunkCapacity * sizeof(fastprof::Slot), 'x');
  const size_t size = ranges * sizeof(fastprof::Slot);
  for (size_t at = 0; at < size; at += chunk.size())
    if (pwrite(fd, chunk.data(), chunk.size(), static_cast<off_t>(at)) <= 0) std::abort();
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options given = bench::parse_options(argc, argv, 4000000);
  const size_t ranges = given.ranges;
  const std::string& folder = given.folder;

  uint64_t lost = 0;
  const auto session = [&](fastprof::OverflowPolicy policy, uint64_t bytes, size_t threads) {
    return [&lost, &folder, policy, bytes, threads](size_t n) {
      fastprof::SessionOptions options;
      options.overflow = policy;
      options.max_bytes = bytes;
      options.spill_folder = folder;
      fastprof::Session session(options);
      session.start();
      const double ns = bench::timed([&] { record_on(threads, n); });
      session.stop();
      lost += session.dropped_events();
      return ns;
    };
  };
  constexpr auto keep = fastprof::OverflowPolicy::drop_newest;
  constexpr auto spill = fastprof::OverflowPolicy::spill_to_file;
  for (const size_t threads : {size_t{1}, size_t{2}}) {
    bench::Suite suite;
    suite.add("limit: all of it in memory", ranges, session(keep, uint64_t{1} << 30, threads));
    suite.add("the same bytes, pwrite(2), no recording", ranges,
              [&](size_t n) { return bench::timed([&] { write_bytes(folder, n); }); });
    for (const uint64_t kilobytes : {128, 1024, 16384}) {
      suite.add("spill, " + std::to_string(kilobytes) + " kB", ranges,
                session(spill, kilobytes << 10, threads));
    }
    suite.run(given.rounds);
    const std::string title = "Spill, ns a range, " + std::to_string(threads) + " threads";
    suite.report(title.c_str(), given.json);
  }
  std::printf("ranges lost: %llu\n", static_cast<unsigned long long>(lost));
  if (given.json != nullptr) std::fclose(given.json);
  return lost == 0 ? 0 : 1;
}
