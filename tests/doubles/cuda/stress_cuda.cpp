// SPDX-License-Identifier: Apache-2.0
// Runs the production backends of CUDA over the doubles of libcupti and libcudart, on many threads:
// built by tests/tools/cuda_stress.py, also with sanitizers. Prints "N kernels, all right" or what
// is wrong.
//
//   stress_cuda [launches] [threads]
//
// Each thread launches kernels whose name tells the range that launched them; records come back on
// foreign threads in any order, while other collections begin, end and are abandoned. With
// FAKE_CUPTI_FAIL or FAKE_CUDART_FAIL, only what cannot be collected is missing: no failure
// spreads.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/event_backend.hpp"
#include "backends/cuda/event_stubs.hpp"
#include "fastprof/fastprof.hpp"

namespace fp = fastprof;
using fp::devices::CollectionRequest;
using fp::devices::DeviceBackend;

namespace {

constexpr int kNames = 16;

using Launch = uint32_t (*)(const char*, uint32_t device, uint32_t stream, uint64_t time);
using Work = void (*)(void* stream, int64_t ns);
using Push = void (*)(const char* name);
using Pop = void (*)();

// The program's calls.
struct Calls {
  Launch launch;
  Work work;
  Push push;
  Pop pop;
};

template <class Function>
Function function_of(const char* variable, const char* name) {
  void* const handle = ::dlopen(std::getenv(variable), RTLD_NOW);
  void* const found = handle != nullptr ? ::dlsym(handle, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "%s has no %s\n", variable, name);
    std::exit(2);
  }
  return reinterpret_cast<Function>(found);
}

bool injects_failures() {
  return std::getenv("FAKE_CUPTI_FAIL") != nullptr || std::getenv("FAKE_CUDART_FAIL") != nullptr;
}

const CollectionRequest& request() {
  static const CollectionRequest all{{"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime",
                                      "cuda_driver", "cuda_sync", "overhead", "gpu_memory",
                                      "unified_memory", "gpu_user_annotation"}};
  return all;
}

// Calls `use` with an open collection; a backend may refuse to begin one.
template <class Use>
bool with_collection(DeviceBackend& backend, Use use) {
  uint64_t number = 0;
  try {
    number = backend.begin(request());
  } catch (const fp::Error& error) {
    if (!injects_failures()) throw;
    return false;
  }
  use(number);
  return true;
}

void launch_all(const Calls& calls, int thread, size_t count) {
  std::vector<std::string> kernels, ranges;
  for (int i = 0; i < kNames; ++i) {
    kernels.push_back("of range " + std::to_string(thread) + "." + std::to_string(i));
    ranges.push_back("range " + std::to_string(thread) + "." + std::to_string(i));
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t name = i % kNames;
    FASTPROF_RANGE_DYNAMIC(ranges[name].c_str());
    calls.push(ranges[name].c_str());  // of NVTX, which CUPTI hands back
    calls.launch(kernels[name].c_str(), 0, static_cast<uint32_t>(10 + thread), 50);
    calls.pop();
    if (i % 64 == 0) calls.work(reinterpret_cast<void*>(static_cast<intptr_t>(thread + 1)), 100);
  }
}

// Returns the number of kernels, and of those whose range is not the one that their name tells.
std::pair<size_t, size_t> check(const fp::Capture& capture) {
  size_t kernels = 0, wrong = 0;
  for (const fp::DeviceLink& link : capture.device_links) {
    const fp::SiteInfo& site = capture.sites[capture.site[link.row]];
    if (site.category != "kernel" || site.name.compare(0, 3, "of ") != 0) continue;
    ++kernels;
    const std::string wanted = site.name.substr(3);
    // A failure may leave kernels without a range, but never with another's.
    if (link.range < 0 && injects_failures()) continue;
    if (link.range < 0 ||
        capture.sites[capture.site[static_cast<size_t>(link.range)]].name != wanted)
      ++wrong;
  }
  return {kernels, wrong};
}

}  // namespace

int main(int argc, char** argv) {
  const size_t launches = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 4;
  const Calls calls{function_of<Launch>("FASTPROF_CUPTI_LIBRARY", "fake_launch"),
                    function_of<Work>("FASTPROF_CUDART_LIBRARY", "fake_cudart_work"),
                    function_of<Push>("FASTPROF_CUPTI_LIBRARY", "fake_push"),
                    function_of<Pop>("FASTPROF_CUPTI_LIBRARY", "fake_pop")};
  fp::devices::register_cuda_backend({});
  fp::devices::register_event_backend(fp::cuda::cuda_runtime(), {});
  fp::cuda::register_event_stubs(fp::cuda::cuda_runtime(), {});
  DeviceBackend& cupti = *fp::devices::find_backend("CUDA");
  DeviceBackend& events = *fp::devices::find_backend("CUDA events");

  // Ranges timed by events, while other threads do the same.
  fp::SessionOptions options;
  options.max_bytes = uint64_t{1} << 30;
  std::vector<std::string> problems;
  size_t timed = 0;
  {
    fp::Session session(options);
    with_collection(events, [&](uint64_t number) {
      session.start();
      std::vector<std::thread> all;
      for (int t = 0; t < threads; ++t) all.emplace_back([&, t] { launch_all(calls, t, 64); });
      for (std::thread& each : all) each.join();
      fp::Activities found = events.end(number, problems);
      timed = found.rows.size();
      session.add_activities(std::move(found));
      session.stop();
      session.take_capture();
    });
  }
  if (timed == 0 && !injects_failures()) {
    std::puts("no range was timed by events");
    return 1;
  }

  // The exclusive profiler, on each thread by itself.
  {
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([&] {
        try {
          fp::enable_profiler(fp::ProfilerConfig(fp::ProfilerState::CUDA));
          for (int i = 0; i < 20; ++i) {
            FASTPROF_RANGE("exclusive");
            calls.work(nullptr, 100);
          }
          fp::LegacyEventLists lists = fp::disable_profiler();
        } catch (const fp::Error&) {
          if (!injects_failures()) std::abort();
        }
      });
    for (std::thread& each : all) each.join();
  }

  fp::Session session(options);
  const bool collects = with_collection(cupti, [&](uint64_t number) {
    session.start();
    std::atomic<bool> done{false};
    std::thread others([&] {
      for (int i = 0; !done.load(); ++i)
        with_collection(cupti, [&](uint64_t other) {
          std::vector<std::string> said;
          cupti.is_full(other);
          if (i % 3 == 0)
            cupti.abandon(other);
          else
            cupti.end(other, said);
          ::usleep(500);
        });
    });
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t)
      all.emplace_back([&, t] { launch_all(calls, t, launches / static_cast<size_t>(threads)); });
    for (std::thread& each : all) each.join();
    done.store(true);
    others.join();
    session.add_activities(cupti.end(number, problems));
    session.stop();
  });
  if (!collects) {
    std::puts("nothing collected");
    return 0;
  }
  const fp::Capture capture = session.take_capture();
  const auto [kernels, wrong] = check(capture);
  const size_t expected = launches / static_cast<size_t>(threads) * static_cast<size_t>(threads);
  // Each range is there twice: as ours, and as NVTX's.
  size_t ranges = 0;
  for (size_t row = 0; row < capture.size(); ++row)
    if (!capture.tracks[capture.track[row]].is_device() &&
        capture.sites[capture.site[row]].name.compare(0, 6, "range ") == 0)
      ++ranges;
  std::printf("%zu kernels of %zu, %zu wrong, %zu ranges\n", kernels, expected, wrong, ranges);
  if (injects_failures()) return wrong == 0 ? 0 : 1;
  return kernels == expected && wrong == 0 && ranges == 2 * expected ? 0 : 1;
}
