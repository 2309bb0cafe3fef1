// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a scope: off, on, with each feature of the recorder, from an executable and
// from a dlopened library. Usage: hot_path [--rounds N] [--json FILE] [--library PATH]. The growing
// case, which needs new processes, is in growing.cpp.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "../harness/bench.hpp"
#include "../harness/limit.hpp"
#include "scopes.hpp"

namespace {

using fastprof::Session;
using fastprof::SessionOptions;

// Times `loop` in a session with enough memory; chunks are reused from round to round.
double recorded(size_t n, void (*loop)(size_t)) {
  SessionOptions options;
  options.max_bytes = 256u << 20;
  Session session(options);
  session.start();
  const double ns = bench::timed([&] { loop(n); });
  const fastprof::Capture& capture = session.stop();
  if (capture.dropped_total() != 0) {
    std::fprintf(stderr, "dropped %llu\n",
                 static_cast<unsigned long long>(capture.dropped_total()));
    std::exit(1);
  }
  return ns;
}

// Runs `loop` on two threads at once; returns the time of the slower one.
double on_two_threads(size_t n, const std::function<void(size_t)>& loop) {
  std::atomic<int> ready{0};
  double ns[2];
  auto body = [&](int t) {
    loop(1000);
    ++ready;
    while (ready.load() != 2) std::this_thread::yield();
    ns[t] = bench::timed([&] { loop(n); });
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  return std::max(ns[0], ns[1]);
}

std::unique_ptr<fastprof::ObserverContext> empty_start(const fastprof::RecordFunction&) {
  return nullptr;
}
void empty_end(const fastprof::RecordFunction&, fastprof::ObserverContext*) {}

double with_callbacks(size_t n, int count, void (*loop)(size_t)) {
  std::vector<fastprof::CallbackHandle> handles;
  for (int i = 0; i < count; ++i)
    handles.push_back(fastprof::add_thread_local_callback(
        fastprof::RecordFunctionCallback(&empty_start, &empty_end)));
  loop(100);
  const double ns = bench::timed([&] { loop(n); });
  for (const auto handle : handles) fastprof::remove_callback(handle);
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 11;
  std::FILE* json = nullptr;
  const char* library = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--json") == 0) json = std::fopen(argv[i + 1], "a");
    if (std::strcmp(argv[i], "--library") == 0) library = argv[i + 1];
  }
  const HotPathLoops* exe = &hot_path::kLoops;
  const HotPathLoops* lib = nullptr;
  if (library != nullptr) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    lib = reinterpret_cast<const HotPathLoops* (*)()>(dlsym(handle, "hot_path_loops"))();
  }
  const size_t n = 1000000;
  bench::Limit limit, limit_other;
  bench::Suite suite;
  suite.add("limit: 2 stamps, 2 16-byte stores", n,
            [&](size_t k) { return bench::timed([&] { limit.scopes(k); }); });
  suite.add("empty loop", n, [](size_t k) {
    return bench::timed([&] {
      for (size_t i = 0; i < k; ++i) hot_path::pause();
    });
  });
  suite.add("off", n, [&](size_t k) { return bench::timed([&] { exe->range(k); }); });
  suite.add("on, warm", n, [&](size_t k) { return recorded(k, exe->range); });
  suite.add("on, warm, nested 8 deep", n, [&](size_t k) { return recorded(k, exe->nested); });
  if (lib != nullptr) {
    suite.add("off, dlopened", n, [&](size_t k) { return bench::timed([&] { lib->range(k); }); });
    suite.add("on, warm, dlopened", n, [&](size_t k) { return recorded(k, lib->range); });
  }
  suite.add("on, mark", n, [&](size_t k) { return recorded(k, exe->mark); });
  suite.add("on, counter", n, [&](size_t k) { return recorded(k, exe->counter); });
  // Fewer of the larger records, so that one round fits in the memory that stays warm.
  suite.add("on, two int arguments", n / 4, [&](size_t k) { return recorded(k, exe->args_int2); });
  suite.add("on, one string argument", n / 4,
            [&](size_t k) { return recorded(k, exe->args_string); });
  suite.add("on, dynamic name", n, [&](size_t k) { return recorded(k, exe->dynamic); });
  suite.add("on, async begin and end", n / 4, [&](size_t k) { return recorded(k, exe->async); });
  suite.add("RecordFunction, off", n,
            [&](size_t k) { return bench::timed([&] { exe->record_function(k); }); });
  suite.add("RecordFunction, one empty callback", n,
            [&](size_t k) { return with_callbacks(k, 1, exe->record_function); });
  suite.add("RecordFunction, four empty callbacks", n,
            [&](size_t k) { return with_callbacks(k, 4, exe->record_function); });
  suite.add("RecordFunction, recorded", n,
            [&](size_t k) { return recorded(k, exe->record_function); });
  suite.run(rounds);
  suite.report("hot path", json);

  if (std::thread::hardware_concurrency() >= 2) {
    bench::Suite threads;
    // The records of two threads in one round fit in the memory that stays warm between sessions
    // (32 MB).
    const size_t half = n / 2;
    threads.add("limit, one thread", n,
                [&](size_t k) { return bench::timed([&] { limit.scopes(k); }); });
    std::atomic<int> turn{0};
    threads.add("limit, two threads at once", half, [&](size_t k) {
      turn = 0;
      return on_two_threads(k, [&](size_t m) {
        thread_local const int mine = turn++ & 1;
        (mine == 0 ? limit : limit_other).scopes(m);
      });
    });
    threads.add("on, warm, one thread", half, [&](size_t k) { return recorded(k, exe->range); });
    threads.add("on, warm, two threads at once", half, [&](size_t k) {
      SessionOptions options;
      options.max_bytes = 256u << 20;
      Session session(options);
      session.start();
      const double ns = on_two_threads(k, [&](size_t m) { exe->range(m); });
      session.stop();
      return ns;
    });
    threads.run(rounds);
    threads.report("threads", json);
  }

  bench::Suite latency;
  latency.add("limit", n, [&](size_t k) { return bench::timed([&] { limit.scopes(k); }); });
  latency.add("session start + stop, empty", 100, [&](size_t k) {
    return bench::timed([&] {
      for (size_t i = 0; i < k; ++i) {
        Session session;
        session.start();
        session.stop();
      }
    });
  });
  latency.add("stop, per recorded range", n, [&](size_t k) {
    SessionOptions options;
    options.max_bytes = 256u << 20;
    Session session(options);
    session.start();
    exe->range(k);
    return bench::timed([&] { session.stop(); });
  });
  latency.run(rounds);
  latency.report("start and stop", json);
  if (json != nullptr) std::fclose(json);
  return 0;
}
