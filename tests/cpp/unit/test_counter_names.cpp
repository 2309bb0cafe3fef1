// SPDX-License-Identifier: Apache-2.0
// Names of perf counters and the kernel's numbers for them, which are its ABI.
#include <iterator>
#include <string>

#include "check.hpp"
#include "fastprof/payload/perf_counters/counter_names.hpp"

using namespace fastprof;

namespace {

// Modes that are not counted in.
constexpr uint32_t kUser = 1, kKernel = 2, kHypervisor = 4;

struct Known {
  const char* name;
  uint32_t type;
  uint64_t config;
  uint32_t excludes;
};
const Known kAll[] = {
    {"task-clock", 1, 1, 6},
    {"cpu-clock", 1, 0, 6},
    {"page-faults", 1, 2, 6},
    {"minor-faults", 1, 5, 6},
    {"major-faults", 1, 6, 6},
    {"context-switches", 1, 3, 4},
    {"cpu-migrations", 1, 4, 4},
    {"alignment-faults", 1, 7, 4},
    {"emulation-faults", 1, 8, 4},
    {"cycles", 0, 0, 6},
    {"instructions", 0, 1, 6},
    {"cache-references", 0, 2, 6},
    {"cache-misses", 0, 3, 6},
    {"branches", 0, 4, 6},
    {"branch-misses", 0, 5, 6},
    {"bus-cycles", 0, 6, 6},
    {"stalled-cycles-frontend", 0, 7, 6},
    {"stalled-cycles-backend", 0, 8, 6},
    {"ref-cycles", 0, 9, 6},
    {"L1-dcache-loads", 3, 0x00000, 6},
    {"L1-dcache-load-misses", 3, 0x10000, 6},
    {"L1-icache-load-misses", 3, 0x10001, 6},
    {"LLC-loads", 3, 0x00002, 6},
    {"LLC-load-misses", 3, 0x10002, 6},
    {"dTLB-load-misses", 3, 0x10003, 6},
    {"iTLB-load-misses", 3, 0x10004, 6},
};

CounterConfig found(const std::string& name) {
  CounterConfig config{99, 99, 99};
  CHECK(find_counter(name, &config));
  return config;
}
bool same(const CounterConfig& a, const CounterConfig& b) {
  return a.type == b.type && a.config == b.config && a.excludes == b.excludes;
}

}  // namespace

TEST(every_name_has_the_number_of_the_kernel) {
  CHECK_EQ(std::size(kCounterNames), std::size(kAll));
  for (const Known& known : kAll) {
    const std::string name = known.name;
    CHECK(same(found(name), {known.type, known.excludes, known.config}));
    CHECK(same(found(name + ":u"), {known.type, kKernel | kHypervisor, known.config}));
    CHECK(same(found(name + ":k"), {known.type, kUser | kHypervisor, known.config}));
    for (const char* both : {":uk", ":ku"})
      CHECK(same(found(name + both), {known.type, kHypervisor, known.config}));
  }
}

TEST(a_cache_event_is_made_of_three_numbers) {
  CHECK_EQ(cache_event(3, 2, 1), 0x10203u);
}

TEST(counters_have_aliases) {
  const char* const aliases[][2] = {{"cpu-cycles", "cycles"},
                                    {"branch-instructions", "branches"},
                                    {"faults", "page-faults"},
                                    {"cs", "context-switches"},
                                    {"migrations", "cpu-migrations"}};
  for (const auto& [alias, name] : aliases) {
    CHECK(same(found(alias), found(name)));
    CHECK(same(found(std::string(alias) + ":k"), found(std::string(name) + ":k")));
  }
}

TEST(raw_events_are_hexadecimal) {
  const auto raw = [](uint64_t config) { return CounterConfig{4, kKernel | kHypervisor, config}; };
  CHECK(same(found("r0"), raw(0)));
  CHECK(same(found("r9"), raw(9)));
  CHECK(same(found("r01c2"), raw(0x1C2)));
  CHECK(same(found("r0123456789abcdef"), raw(0x0123456789ABCDEF)));
  CHECK(same(found("rFEDCBA9876543210"), raw(0xFEDCBA9876543210)));
  CHECK(same(found("rff:uk"), {4, kHypervisor, 0xFF}));
  CounterConfig config{};
  // Of each kind of digit, the characters before the first and behind the last.
  for (const char* wrong : {"r", "r00000000000000000", "r/", "r:", "r@", "rG", "r`", "rg", "r1g",
                            "1ff", "x1", "rff:", "rff:x", "rff:uu"})
    CHECK(!find_counter(wrong, &config));
}
