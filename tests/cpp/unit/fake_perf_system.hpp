// SPDX-License-Identifier: Apache-2.0
// A double of the kernel's calls for perf counters, and what tests of counters ask for.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "fastprof/payload/perf_counters/counter_names.hpp"
#include "fastprof/payload/perf_counters/perf_counters.hpp"

// Unnamed: each program has its own.
namespace fastprof_test {
namespace {

using namespace fastprof;

// Events open unless told otherwise, a read gives what is laid down here.
struct Fake {
  int next_fd = 100;
  int open_count = 0, close_count = 0, map_count = 0, unmap_count = 0, read_count = 0;
  int fail_at = -1;  // index of the open that fails
  int fail_error = 0;
  uint32_t fail_type = ~0u;  // or the type that always fails
  size_t max_group = 99;     // events that fit together
  uint64_t values[4] = {1, 2, 3, 4};
  uint64_t enabled = 10, running = 10;
  int interrupts = 0;
  bool read_fails = false;
  int read_error = 0;
  uint64_t more_counted = 0;  // a group of more events than were opened
  int enabled_fd = -1, enable_error = 0;
  size_t map_bytes = 0, unmap_bytes = 0;
  uint64_t limit = 1024;
  perf_event_mmap_page* pages[4] = {};
  uint64_t pmc[16] = {};
  int pmc_reads = 0, updates = 0;
  perf_event_attr seen[8];
  int group_seen[8];
};
Fake fake;

int fake_open(perf_event_attr* attributes, int group) {
  const int index = fake.open_count++;
  if (index < 8) {
    fake.seen[index] = *attributes;
    fake.group_seen[index] = group;
  }
  if (index == fake.fail_at || attributes->type == fake.fail_type) {
    errno = fake.fail_error;
    return -1;
  }
  if (group >= 0 && static_cast<size_t>(fake.next_fd - group) >= fake.max_group) {
    errno = EINVAL;
    return -1;
  }
  return fake.next_fd++;
}
ssize_t fake_read(int, void* buffer, size_t size) {
  ++fake.read_count;
  if (fake.interrupts > 0) {
    --fake.interrupts;
    errno = EINTR;
    return -1;
  }
  if (fake.read_error != 0) {
    errno = fake.read_error;
    return -1;
  }
  if (fake.read_fails) return 0;  // what the kernel gives for a group in an error state
  const size_t count = size / 8 - 3;
  uint64_t words[7] = {count + fake.more_counted, fake.enabled, fake.running, 0, 0, 0, 0};
  for (size_t i = 0; i < count; ++i) words[3 + i] = fake.values[i];
  std::memcpy(buffer, words, size);
  return static_cast<ssize_t>(size);
}
int fake_enable(int fd) {
  fake.enabled_fd = fd;
  if (fake.enable_error == 0) return 0;
  errno = fake.enable_error;
  return -1;
}
int fake_close(int) {
  return ++fake.close_count, 0;
}
void* fake_map(int fd, size_t bytes) {
  fake.map_bytes = bytes;
  return fake.pages[fake.map_count++, static_cast<size_t>(fd) % 4];
}
void fake_unmap(void*, size_t bytes) {
  fake.unmap_bytes = bytes;
  ++fake.unmap_count;
}
uint64_t fake_pmc(uint32_t index) {
  if (fake.updates > 0) {  // the kernel changes the page meanwhile
    --fake.updates;
    ++fake.pages[0]->lock;
  }
  return ++fake.pmc_reads, fake.pmc[index];
}
uint64_t fake_limit() {
  return fake.limit;
}
const PerfSystem kFake = {fake_open, fake_read,  fake_enable, fake_close,
                          fake_map,  fake_unmap, fake_pmc,    fake_limit};

DetailOptions options_for(const std::vector<std::string>& names) {
  DetailOptions options{};
  for (const std::string& name : names) {
    CHECK(find_counter(name, &options.counters[options.counter_count]));
    ++options.counter_count;
  }
  return options;
}

}  // namespace
}  // namespace fastprof_test
