// SPDX-License-Identifier: Apache-2.0
// From a stopped session to answers: summary, Chrome trace, Perfetto trace of 10^6 recorded ranges,
// nanoseconds a range. Each suite's first row is its limit: the same bytes written from memory, or
// the columns copied once.
//   outputs [--rounds N] [--ranges N] [--json FILE] [--folder FOR_TRACES]
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "../harness/bench.hpp"
#include "fastprof/fastprof.hpp"

namespace {

// A training loop's shape: eight ranges of six names, four deep, an argument in one of them.
__attribute__((noinline)) void step(int i) {
  FASTPROF_RANGE("step");
  {
    FASTPROF_RANGE("forward");
    for (int layer = 0; layer < 2; ++layer) {
      FASTPROF_RANGE_ARGS("layer", "index", layer);
      FASTPROF_RANGE("matmul");
    }
  }
  FASTPROF_RANGE("backward");
  FASTPROF_RANGE("all_reduce");
  if (i < 0) std::abort();
}

// Keeps the bytes: the size of a trace is known before, so growing does not count.
struct Bytes {
  std::string data;
  void write(const char* from, long size) { data.append(from, static_cast<size_t>(size)); }
};
struct Nowhere {
  void write(const char*, long) {}
};

void write_file(const std::string& path, const std::string& data) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  for (size_t at = 0; at < data.size();) {
    const size_t piece = std::min<size_t>(data.size() - at, 256 * 1024);
    const ssize_t done = write(fd, data.data() + at, piece);
    if (done <= 0) std::abort();
    at += static_cast<size_t>(done);
  }
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 11;
  size_t ranges = 1000000;
  std::string folder = ".", json_path;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--ranges") == 0)
      ranges = static_cast<size_t>(std::atoll(argv[i + 1]));
    if (std::strcmp(argv[i], "--folder") == 0) folder = argv[i + 1];
    if (std::strcmp(argv[i], "--json") == 0) json_path = argv[i + 1];
  }
  std::FILE* json = json_path.empty() ? nullptr : std::fopen(json_path.c_str(), "a");

  fastprof::SessionOptions options;
  options.max_bytes = 2048u << 20;
  fastprof::Session session(options);
  session.start();
  for (size_t i = 0; i < ranges / 8; ++i) step(static_cast<int>(i));
  const fastprof::Capture& capture = session.stop();
  const size_t n = capture.size();
  if (n != ranges / 8 * 8 || capture.dropped_total() != 0) return 1;

  Bytes chrome, perfetto;
  fastprof::write_chrome_trace(capture, chrome);
  fastprof::write_perfetto_trace(capture, perfetto);
  const std::string file = folder + "/fastprof-benchmark.trace";
  const auto note = [n](const Bytes& bytes) {
    return std::to_string(bytes.data.size() / n) + " bytes a range";
  };
  // Every round makes the file anew: the page cache has to take all of it.
  const auto fresh = [&file](auto body) {
    return [&file, body](size_t) {
      unlink(file.c_str());
      return bench::timed(body);
    };
  };

  bench::Suite as_chrome;
  as_chrome.add("limit: the same bytes from memory, write(2)", n,
                fresh([&] { write_file(file, chrome.data); }), note(chrome));
  as_chrome.add("write_chrome_trace to a file", n,
                fresh([&] { fastprof::write_chrome_trace(capture, file); }));
  as_chrome.add("write_chrome_trace, bytes discarded", n, [&](size_t) {
    Nowhere nowhere;
    return bench::timed([&] { fastprof::write_chrome_trace(capture, nowhere); });
  });
  as_chrome.run(rounds);
  as_chrome.report("Chrome JSON, ns a range", json);

  bench::Suite as_perfetto;
  as_perfetto.add("limit: the same bytes from memory, write(2)", n,
                  fresh([&] { write_file(file, perfetto.data); }), note(perfetto));
  as_perfetto.add("write_perfetto_trace to a file", n,
                  fresh([&] { fastprof::write_perfetto_trace(capture, file); }));
  as_perfetto.add("write_perfetto_trace, bytes discarded", n, [&](size_t) {
    Nowhere nowhere;
    return bench::timed([&] { fastprof::write_perfetto_trace(capture, nowhere); });
  });
  as_perfetto.run(rounds);
  as_perfetto.report("Perfetto protobuf, ns a range", json);
  unlink(file.c_str());

  bench::Suite summary;
  volatile int64_t sink = 0;
  summary.add("limit: the columns copied once", n, [&](size_t) {
    return bench::timed([&] {
      const auto start = capture.start_ns, end = capture.end_ns;
      const auto site = capture.site, track = capture.track, payload = capture.payload;
      const auto parent = capture.parent;
      const auto kind = capture.kind;
      const auto flags = capture.flags;
      sink = sink + start.back() + end.back() + site.back() + track.back() + payload.back() +
             parent.back() + flags.back() + static_cast<int64_t>(kind.back());
    });
  });
  summary.add("summarise (exact percentiles)", n, [&](size_t) {
    return bench::timed([&] { sink = sink + fastprof::summarise(capture).self_total_ns; });
  });
  summary.add("summarise and print", n, [&](size_t) {
    return bench::timed([&] {
      sink = sink + static_cast<int64_t>(fastprof::summarise(capture).to_string().size());
    });
  });
  summary.add("validate_capture", n,
              [&](size_t) { return bench::timed([&] { fastprof::validate_capture(capture); }); });
  summary.add("tree kernel: parents and self times", n, [&](size_t) {
    std::vector<int32_t> parent(n);
    std::vector<int64_t> self(n);
    fastprof::NestingWalk<int64_t> walk;
    return bench::timed([&] {
      fastprof::nest_ordered(n, capture.start_ns.data(), capture.end_ns.data(), nullptr,
                             parent.data(), walk);
      fastprof::self_times(n, capture.start_ns.data(), capture.end_ns.data(), parent.data(),
                           nullptr, self.data());
      sink = sink + self.back();
    });
  });
  summary.run(rounds);
  summary.report("Summary, ns a range", json);
  if (json != nullptr) std::fclose(json);
  return 0;
}
