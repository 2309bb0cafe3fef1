// SPDX-License-Identifier: Apache-2.0
// Measures what follows a stopped session of 10^6 ranges: summary, Chrome trace, Perfetto trace, in
// ns per range. The first row of each suite is its limit: writing the same bytes from memory, or
// copying the columns once.
//   outputs [--rounds N] [--ranges N] [--json FILE] [--folder FOR_TRACES]
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "../harness/bench.hpp"
#include "../harness/options.hpp"
#include "fastprof/fastprof.hpp"

namespace {

// Ranges shaped like a training loop: eight ranges of six names, up to four deep, one name with an
// argument.
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

// A stream that keeps the bytes.
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
  const auto [rounds, ranges, folder, json] = bench::parse_options(argc, argv, 1000000);

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
  // Each round creates a new file, so that the page cache must take all of it.
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
    fastprof::NestingWalk<int64_t> walk;
    return bench::timed([&] {
      walk.reset();
      for (size_t i = 0; i < n; ++i)
        parent[i] = walk.enter(static_cast<int32_t>(i), capture.start_ns[i], capture.end_ns[i]);
      sink = sink + parent.back() + fastprof::self_times_ns(capture)[n - 1];
    });
  });
  summary.run(rounds);
  summary.report("Summary, ns a range", json);
  if (json != nullptr) std::fclose(json);
  return 0;
}
