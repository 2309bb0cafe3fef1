// SPDX-License-Identifier: Apache-2.0
// What a sample of 30 native frames costs: to the sampled thread, from the request to the return of
// its handler; to the sampling thread, to find the frames of the copy. Both are CPU times, measured
// on one thread. Then the CPU time of a fixed work at this depth with a NativeSampler, over that
// without one, in turn.
//
//   native_sampling [--rounds N] [--json FILE]
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fastprof/sampling.hpp>
#include <string>
#include <vector>

namespace {

constexpr int kDepth = 30;
constexpr double kHz = 1000;

__attribute__((noinline)) uint64_t nested(int depth, uint64_t units) {
  uint64_t sum = 1;
  if (depth > 1) {
    sum = nested(depth - 1, units);
  } else {
    for (uint64_t i = 0; i < units; ++i) sum = sum * 6364136223846793005u + i;
  }
  __asm__ __volatile__("" : "+r"(sum));
  return sum;
}

int64_t own_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

int64_t work_ns() {
  const int64_t begin_ns = own_cpu_ns();
  nested(kDepth, 400000000);
  return own_cpu_ns() - begin_ns;
}

struct Costs {
  double answer_us, walk_us;
};

__attribute__((noinline)) Costs costs_at(int depth) {
  if (depth > 1) {
    Costs costs = costs_at(depth - 1);
    __asm__ __volatile__("" : "+m"(costs));
    return costs;
  }
  fastprof::platform::ThreadStops stops;
  if (!stops.begin().empty()) return {0, 0};
  fastprof::StackWalker walker;
  walker.refresh();
  fastprof::platform::StackExtent extent;
  const uint32_t tid = fastprof::platform::thread_id();
  uint64_t frames[256];
  constexpr int kSamples = 2000;
  int64_t answer_ns = 0;
  int64_t walk_ns = 0;
  stops.take_turn();
  for (int i = -10; i < kSamples; ++i) {
    const int64_t begin_ns = own_cpu_ns();
    stops.ask(0, tid, extent, false);
    const int64_t answered_ns = own_cpu_ns();
    const fastprof::WalkedStack walked = walker.walk(stops.stack(0), frames, 256);
    const int64_t walked_ns = own_cpu_ns();
    stops.release(0);
    extent.update(walked.high, walked.cut, fastprof::platform::ThreadStops::kSlotBytes);
    if (i < 0) continue;  // the cache of rules is empty
    answer_ns += answered_ns - begin_ns;
    walk_ns += walked_ns - answered_ns;
  }
  stops.end_turn();
  stops.end();
  return {static_cast<double>(answer_ns) / 1e3 / kSamples,
          static_cast<double>(walk_ns) / 1e3 / kSamples};
}

double quantile(std::vector<double> values, double at) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(at * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

int main(int count, char** arguments) {
  int rounds = 11;
  const char* json = nullptr;
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::strcmp(arguments[i], "--rounds") == 0) rounds = std::atoi(arguments[i + 1]);
    if (std::strcmp(arguments[i], "--json") == 0) json = arguments[i + 1];
  }
  fastprof::SamplerOptions options;
  options.hz = kHz;
  std::vector<double> ratios, answer_us, walk_us;
  for (int round = 0; round < rounds; ++round) {
    int64_t alone_ns = round % 2 == 0 ? work_ns() : 0;
    fastprof::NativeSampler sampler(options);
    if (const std::string problem = sampler.start(); !problem.empty()) {
      std::fprintf(stderr, "%s\n", problem.c_str());
      return 1;
    }
    const int64_t sampled_ns = work_ns();
    sampler.stop();
    if (alone_ns == 0) alone_ns = work_ns();
    ratios.push_back(static_cast<double>(sampled_ns) / static_cast<double>(alone_ns));
    const Costs costs = costs_at(kDepth);
    answer_us.push_back(costs.answer_us);
    walk_us.push_back(costs.walk_us);
  }
  char row[512];
  std::snprintf(row, sizeof row,
                "{\"case\": \"native stacks, %d frames\", \"hz\": %.0f, \"ratio_median\": %.4f, "
                "\"ratio_quartiles\": [%.4f, %.4f], \"answer_us\": %.2f, \"walk_us\": %.2f}",
                kDepth, kHz, quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75),
                quantile(answer_us, 0.5), quantile(walk_us, 0.5));
  std::puts(row);
  if (json == nullptr) return 0;
  std::FILE* const file = std::fopen(json, "a");
  if (file == nullptr) return 1;
  std::fprintf(file, "%s\n", row);
  return std::fclose(file) == 0 ? 0 : 1;
}
